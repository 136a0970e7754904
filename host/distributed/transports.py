"""Moves chunks between ranks: through shared memory, or as messages of gloo."""

from collections import defaultdict
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

import torch

from multitree.host.distributed.execution import Run, Slices, copy_chunk
from multitree.host.distributed.rank_program import Action, Kind
from multitree.host.peers.connections import Connection
from multitree.host.peers.failures import ANSWER_S
from multitree.host.peers.frames import LARGEST_TAG, Frame, FrameKind
from multitree.host.peers.progress import Progress, Steps, Waiting
from multitree.host.peers.shared_memory import ALIGNMENT_BYTES, SharedMemory
from multitree.topology.collectives import Op

__all__ = ["MessageTransport", "SharedMemoryTransport"]


def _split_like(chunk: torch.Tensor, template: Slices) -> Slices:
    """A chunk in one piece as slices of a template's sizes."""
    if len(template) == 1:
        return [chunk]
    return list(chunk.split([len(part) for part in template]))


class Arrivals:
    """READY frames, by collective; those of later ones are kept until these begin."""

    def __init__(self) -> None:
        self._frames: dict[int, dict[tuple[int, int, int], Frame]] = defaultdict(dict)

    def begin(self, sequence: int) -> None:
        """Start a collective: frames of older ones are forgotten."""
        for old in [number for number in self._frames if number < sequence]:
            del self._frames[old]

    def add(self, peer: int, frame: Frame) -> None:
        """Keep a frame."""
        self._frames[frame.sequence][peer, frame.channel, frame.index] = frame

    def find(self, run: Run, action: Action) -> Frame | None:
        """The frame that an action waits for, if it is there."""
        return self._frames[run.sequence].get((action.peer, action.op, action.flow))


class SharedMemoryTransport:
    """Ranks of one host read each other's chunks where these were computed.

    A contribution is copied to shared memory only where no sum is made of it first; a result is
    copied once to each rank, from the rank that computed it: who passes it on passes on where it
    lies.

    Parameters
    ----------
    rank : int
    connections : dict
    shared : SharedMemory
    """

    name = "shared_memory"

    def __init__(self, rank: int, connections: dict[int, Connection], shared: SharedMemory) -> None:
        self._rank = rank
        self._connections = connections
        self._shared = shared
        self._arrivals = Arrivals()
        self._places: dict[int, tuple[int, int]] = {}

    def begin(self, run: Run) -> Steps[None]:
        """Take a slot once the others have read what was in it."""
        self._arrivals.begin(run.sequence)
        for peer in self._shared.behind(run.sequence):
            wanted = run.sequence - 1
            self._connections[peer].send(Frame(FrameKind.AWAIT, sequence=wanted))
            while peer in self._shared.behind(run.sequence):
                yield Waiting(peer)
        flows = {action.flow for action in run.program.actions if action.kind == Kind.SEND}
        flows |= {a.flow for a in run.program.actions if a.op == Op.REDUCE and not a.is_last}
        sizes = [_num_bytes(run.flows.template(flow)) for flow in flows]
        aligned = sum(-(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for size in sizes)
        self._shared.begin(run.sequence, aligned)
        self._places = {}

    def advance(self, actions: Steps[None]) -> Steps[None]:
        """Run the actions here."""
        yield from actions

    def room(self, run: Run, action: Action) -> Slices:
        """A place in this rank's slot, the same for all contributions to a flow."""
        template = run.flows.template(action.flow)
        if action.flow not in self._places:
            place = self._shared.allocate(_num_bytes(template))
            self._places[action.flow] = self._rank, place
        return self._slices(action.flow, template)

    def receive(self, run: Run, action: Action) -> Steps[Slices]:
        """The other rank's chunk, where it lies."""
        while (frame := self._arrivals.find(run, action)) is None or not self._shared.is_mapped(
            frame.length, frame.offset
        ):
            yield Waiting(action.peer, action.flow, action.step)
        template = run.flows.template(action.flow)
        if action.op == Op.GATHER:
            self._places[action.flow] = frame.length, frame.offset
            return self._slices(action.flow, template)
        return self._view(frame.length, frame.offset, template)

    def send(self, run: Run, action: Action, value: Slices) -> None:
        """Say where the chunk lies; it is copied there if it is not."""
        if action.flow not in self._places:
            copy_chunk(value, self.room(run, action))
        home, place = self._places[action.flow]
        frame = Frame(
            FrameKind.READY,
            action.op,
            action.flow,
            run.sequence,
            place,
            home,
            run.fingerprint,
        )
        self._connections[action.peer].send(frame)

    def end(self, run: Run) -> Steps[None]:
        """Nothing: others read only what is in shared memory."""
        yield from ()

    def arrived(self, peer: int, frame: Frame) -> None:
        """Keep a READY frame."""
        self._arrivals.add(peer, frame)

    def _slices(self, flow: int, template: Slices) -> Slices:
        return self._view(*self._places[flow], template)

    def _view(self, rank: int, place: int, template: Slices) -> Slices:
        length = sum(len(part) for part in template)
        return _split_like(self._shared.view(rank, place, length, template[0].dtype), template)


def _num_bytes(slices: Sequence[torch.Tensor]) -> int:
    return sum(part.numel() * part.element_size() for part in slices)


class PointToPoint(Protocol):
    """What is used of PyTorch's gloo: its sends and receives."""

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> torch.distributed.Work:
        """Begin to send."""

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> torch.distributed.Work:
        """Begin to receive."""


class MessageTransport:
    """Ranks send chunks by gloo, in a context of the group's own.

    Every rank first says over its connections what it is about to send. Receives are
    posted once these frames have come and agree, so that no message is longer or shorter than
    its receive, and all of them before the first send.

    Parameters
    ----------
    backend : ProcessGroupGloo
        Used for nothing else.
    connections : dict
    progress : Progress
        Whose helper thread waits for messages.
    """

    name = "gloo"

    def __init__(
        self,
        backend: PointToPoint,
        connections: dict[int, Connection],
        progress: Progress,
    ) -> None:
        self._backend = backend
        self._connections = connections
        self._progress = progress
        self._arrivals = Arrivals()
        self._tags: dict[tuple[str, int], int] = defaultdict(int)
        self._receives: dict[tuple[int, int, int], tuple[torch.Tensor, torch.distributed.Work]] = {}
        self._sends: list[tuple[Action, torch.Tensor, torch.distributed.Work]] = []
        self._rooms: dict[int, torch.Tensor] = {}
        self._tag_of: dict[tuple[int, int, int], int] = {}
        self._scratch = _Scratch()
        self._waiting = Waiting(-1)

    def begin(self, run: Run) -> Steps[None]:
        """Agree with the others, then post every receive."""
        self._arrivals.begin(run.sequence)
        for action in run.program.actions:
            if action.kind == Kind.SEND:
                frame = Frame(
                    FrameKind.READY,
                    action.op,
                    action.flow,
                    run.sequence,
                    fingerprint=run.fingerprint,
                )
                self._connections[action.peer].send(frame)
        takes = [action for action in run.program.actions if action.kind == Kind.TAKE]
        for action in takes:
            self._waiting = Waiting(action.peer, action.flow, action.step)
            while self._arrivals.find(run, action) is None:
                yield self._waiting
        try:
            self._post(run, takes)
        except RuntimeError:
            yield from self._wait_for_the_cause()
            raise

    def _post(self, run: Run, takes: list[Action]) -> None:
        """Post every receive, and number the sends."""
        # Messages between two ranks have the order of (step, flow, op), which both know.
        self._rooms, self._sends = {}, []
        for action in sorted(takes, key=lambda a: (a.step, a.flow, a.op)):
            template = run.flows.template(action.flow)
            memory = self._landing(run, action, template)
            work = self._backend.recv([memory], action.peer, self._next_tag("recv", action.peer))
            self._receives[action.peer, action.op, action.flow] = memory, work
        self._tag_of = {}
        sends = [action for action in run.program.actions if action.kind == Kind.SEND]
        for action in sorted(sends, key=lambda a: (a.step, a.flow, a.op)):
            self._tag_of[action.peer, action.op, action.flow] = self._next_tag("send", action.peer)

    def _landing(self, run: Run, action: Action, template: Slices) -> torch.Tensor:
        """Memory for a chunk that comes: its target where it is one piece, else its own."""
        targets = run.flows.targets.get(action.flow)
        if action.op == Op.GATHER and targets is not None and len(targets) == 1:
            return targets[0]
        return self._scratch.take(template)

    def _next_tag(self, direction: str, peer: int) -> int:
        """Number of a message between two ranks, back at 0 after the largest tag."""
        tag = self._tags[direction, peer]
        self._tags[direction, peer] = (tag + 1) % (LARGEST_TAG + 1)
        return tag

    def room(self, run: Run, action: Action) -> Slices:
        """Where the result goes, too, or memory of this collective alone.

        A result arrives only once this rank's sum has been received whole, so that both may lie in
        the same place.
        """
        targets = run.flows.targets.get(action.flow)
        if targets is not None:
            return targets
        template = run.flows.template(action.flow)
        if action.flow not in self._rooms:
            self._rooms[action.flow] = self._scratch.take(template)
        return _split_like(self._rooms[action.flow], template)

    def advance(self, actions: Steps[None]) -> Steps[None]:
        """Run the actions in the helper, since waiting for gloo blocks."""

        def run_all() -> None:
            for _ in actions:
                raise AssertionError("messages are waited for, not yielded")

        try:
            yield from self._progress.in_thread(run_all, lambda: self._waiting)
        except RuntimeError:
            yield from self._wait_for_the_cause()
            raise

    def _wait_for_the_cause(self) -> Steps[None]:
        """Give the end of a connection time to be noticed, after an error of gloo.

        gloo blames whoever it talks to. Where a rank has died its connection ends, too, and fails
        the collective with that rank's name; only if none does, gloo's error stands.
        """
        until_s = monotonic() + ANSWER_S
        while monotonic() < until_s:
            waiting = self._waiting
            yield Waiting(waiting.peer, waiting.flow, waiting.step, until_s=until_s)

    def receive(self, run: Run, action: Action) -> Steps[Slices]:
        """Wait for a message."""
        memory, work = self._receives.pop((action.peer, action.op, action.flow))
        # Its sender has said that it sends, and leaves only when it has.
        self._waiting = Waiting(action.peer, action.flow, action.step, is_moving=True)
        work.wait()
        return _split_like(memory, run.flows.template(action.flow))
        yield from ()

    def send(self, run: Run, action: Action, value: Slices) -> None:
        """Begin to send a chunk in one message."""
        memory = value[0] if len(value) == 1 else torch.cat(value)
        tag = self._tag_of[action.peer, action.op, action.flow]
        work = self._backend.send([memory], action.peer, tag)
        self._sends.append((action, memory, work))

    def end(self, run: Run) -> Steps[None]:
        """Wait until all was sent."""
        for action, _, work in self._sends:
            self._waiting = Waiting(action.peer, action.flow, action.step, is_moving=True)
            work.wait()
        self._sends = []
        self._scratch.give_back()
        yield from ()

    def arrived(self, peer: int, frame: Frame) -> None:
        """Keep a READY frame."""
        self._arrivals.add(peer, frame)


class _Scratch:
    """Memory for chunks that is kept from one collective for the next, as far as that needs it.

    The operating system clears fresh pages, which takes as long as a sum.
    """

    def __init__(self) -> None:
        self._free: dict[tuple[int, torch.dtype], list[torch.Tensor]] = {}
        self._taken: list[torch.Tensor] = []

    def take(self, template: Slices) -> torch.Tensor:
        """Memory for a chunk in one piece."""
        length, dtype = sum(len(part) for part in template), template[0].dtype
        free = self._free.get((length, dtype))
        tensor = free.pop() if free else template[0].new_empty(length)
        self._taken.append(tensor)
        return tensor

    def give_back(self) -> None:
        """Keep what the collective took, and nothing else."""
        self._free = {}
        for tensor in self._taken:
            self._free.setdefault((len(tensor), tensor.dtype), []).append(tensor)
        self._taken = []
