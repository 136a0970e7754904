"""Ranks send each other chunks as messages: of gloo one by one, of NCCL by step."""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any, Protocol

import torch

from multitree.host.torch.collective import ReadyFrames, Run, Slices, split_like
from multitree.host.torch.layouts import Action, Kind
from multitree.host.torch.peers.connections import Connection
from multitree.host.torch.peers.failures import ANSWER_S
from multitree.host.torch.peers.frames import LARGEST_TAG, Frame, FrameKind
from multitree.host.torch.peers.progress import Progress, Steps, Waiting
from multitree.topology.collectives import Op

__all__ = [
    "LONGEST",
    "BatchedMessages",
    "Batches",
    "MessageTransport",
    "Messages",
    "NcclBatches",
    "PointToPoint",
    "PostedMessages",
]

LONGEST = timedelta(days=1)
"""Timeout of gloo and NCCL: a group's own ends what waits, and finds out for whom."""

_SHORTEST = timedelta(milliseconds=1)

Addressed = tuple[torch.Tensor, int]
"""Memory, and the rank at the other end."""


class Messages(Protocol):
    """What sends and receives. All methods but `post` may block; chunks are in one piece.

    Between two ranks, messages have the order of (step, flow, op), in which both ends are given
    them.
    """

    name: str

    def post(
        self, receives: Sequence[tuple[Action, torch.Tensor]], sends: Sequence[Action]
    ) -> None:
        """Get ready for a collective: memory for what comes, and what will be sent."""

    def receive(self, action: Action, waits_for: Callable[[Action], None]) -> None:
        """Wait for a message."""

    def send(self, action: Action, memory: torch.Tensor) -> None:
        """Begin to send a message."""

    def end(self, waits_for: Callable[[Action], None]) -> None:
        """Wait until all was sent, and results can be read."""

    def close(self) -> None:
        """Give back what it holds."""


def _message_order(action: Action) -> tuple[int, int, int]:
    return action.step, action.flow, action.op


class MessageTransport:
    """Chunks travel as messages, for which the helper thread of `progress` waits.

    Every rank first says over its connections what it is about to send. Receives are posted once
    these frames have come and agree, so that no message is longer or shorter than its receive, and
    all of them before the first send.
    """

    def __init__(
        self,
        messages: Messages,
        connections: dict[int, Connection],
        progress: Progress,
        ready: ReadyFrames,
    ) -> None:
        self.name = messages.name
        self._messages = messages
        self._connections = connections
        self._progress = progress
        self._ready = ready
        self._receive_buffers: dict[Action, torch.Tensor] = {}
        self._accumulators: dict[int, torch.Tensor] = {}
        self._scratch = _Scratch()
        self._waiting = Waiting(-1)

    def rounds(self, run: Run) -> list[Run]:
        """All of it at once."""
        return [run]

    def begin(self, run: Run) -> Steps[None]:
        """Agree with the others, then post every receive."""
        self._ready.begin(run.sequence)
        of_kind: dict[Kind, list[Action]] = {Kind.SEND: [], Kind.RECEIVE: []}
        for action in sorted(run.program.actions, key=_message_order):
            of_kind[action.kind].append(action)
        for action in of_kind[Kind.SEND]:
            frame = Frame(
                FrameKind.READY,
                action.op,
                action.flow,
                run.sequence,
                fingerprint=run.fingerprint,
            )
            self._connections[action.peer].send(frame)
        for action in of_kind[Kind.RECEIVE]:
            self._waiting = Waiting(action.peer, action.flow, action.step)
            while self._ready.find(run, action) is None:
                yield self._waiting
        self._accumulators = {}
        receives = [(action, self._receive_buffer(run, action)) for action in of_kind[Kind.RECEIVE]]
        self._receive_buffers = dict(receives)
        try:
            self._messages.post(receives, of_kind[Kind.SEND])
        except RuntimeError:
            yield from self._wait_for_the_cause()
            raise
        # All that comes is announced: a rank that has sent its part may leave before it is taken.
        self._waiting = replace(self._waiting, is_in_flight=True)

    def _receive_buffer(self, run: Run, action: Action) -> torch.Tensor:
        """Memory for a chunk that comes: its target where it is one piece, else its own."""
        targets = run.flows.targets.get(action.flow)
        if action.op == Op.GATHER and targets is not None and len(targets) == 1:
            return targets[0]
        return self._scratch.take(run.flows.template(action.flow))

    def accumulator(self, run: Run, action: Action) -> Slices:
        """Where the result goes, too, or memory of this collective alone."""
        # A result arrives only once this rank's sum has been received whole: both may lie in the
        # same place.
        targets = run.flows.targets.get(action.flow)
        if targets is not None:
            return targets
        template = run.flows.template(action.flow)
        if action.flow not in self._accumulators:
            self._accumulators[action.flow] = self._scratch.take(template)
        return split_like(self._accumulators[action.flow], template)

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
        """Give the end of a connection time to be noticed, after an error of gloo."""
        # gloo blames whoever it talks to. Where a rank has died its connection ends, too, and fails
        # the collective with that rank's name; only if none does, gloo's error stands.
        until_s = monotonic() + ANSWER_S
        while monotonic() < until_s:
            waiting = self._waiting
            yield Waiting(waiting.peer, waiting.flow, waiting.step, until_s=until_s)

    def receive(self, run: Run, action: Action) -> Steps[Slices]:
        """Wait for a message."""
        memory = self._receive_buffers.pop(action)
        self._messages.receive(action, self._waits_for)
        return split_like(memory, run.flows.template(action.flow))
        yield from ()

    def send(self, run: Run, action: Action, value: Slices) -> None:
        """Begin to send a chunk in one message."""
        self._messages.send(action, value[0] if len(value) == 1 else torch.cat(value))

    def end(self, run: Run) -> Steps[None]:
        """Wait until all was sent."""
        self._messages.end(self._waits_for)
        self._scratch.give_back()
        yield from ()

    def close(self) -> None:
        """Give back what sends and receives."""
        self._messages.close()

    def _waits_for(self, action: Action) -> None:
        # Both ends know that it is sent, and leave only when it is done.
        self._waiting = Waiting(action.peer, action.flow, action.step, is_in_flight=True)


class _Scratch:
    """Memory for chunks that is kept from one collective for the next."""

    def __init__(self) -> None:
        # The operating system clears fresh pages, which takes as long as a sum.
        self._free: dict[tuple[int, torch.dtype, torch.device], list[torch.Tensor]] = {}
        self._taken: list[torch.Tensor] = []

    def take(self, template: Slices) -> torch.Tensor:
        """Memory for a chunk in one piece."""
        length, like = sum(len(part) for part in template), template[0]
        free = self._free.get((length, like.dtype, like.device))
        tensor = free.pop() if free else like.new_empty(length)
        self._taken.append(tensor)
        return tensor

    def give_back(self) -> None:
        """Keep what the collective took, and nothing else."""
        self._free = {}
        for tensor in self._taken:
            self._free.setdefault((len(tensor), tensor.dtype, tensor.device), []).append(tensor)
        self._taken = []


class PointToPoint(Protocol):
    """What is used of PyTorch's gloo: its sends and receives."""

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> torch.distributed.Work:
        """Begin to send."""

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> torch.distributed.Work:
        """Begin to receive."""


class PostedMessages:
    """Messages with tags, each on its way as soon as both ends are there.

    The gloo backend has a context of the group's own, used for nothing else.
    """

    name = "gloo"

    def __init__(self, backend: PointToPoint) -> None:
        self._backend = backend
        self._tags: dict[tuple[str, int], int] = defaultdict(int)
        self._tag_of: dict[Action, int] = {}
        self._receives: dict[Action, torch.distributed.Work] = {}
        self._sends: list[tuple[Action, torch.Tensor, torch.distributed.Work]] = []
        self._is_under_way = False

    def post(
        self, receives: Sequence[tuple[Action, torch.Tensor]], sends: Sequence[Action]
    ) -> None:
        """Post every receive, and number the sends."""
        self._sends, self._is_under_way = [], True
        self._receives = {
            action: self._backend.recv([memory], action.peer, self._next_tag("recv", action.peer))
            for action, memory in receives
        }
        self._tag_of = {action: self._next_tag("send", action.peer) for action in sends}

    def _next_tag(self, direction: str, peer: int) -> int:
        """Number of a message between two ranks, back at 0 after the largest tag."""
        tag = self._tags[direction, peer]
        self._tags[direction, peer] = (tag + 1) % (LARGEST_TAG + 1)
        return tag

    def receive(self, action: Action, waits_for: Callable[[Action], None]) -> None:
        """Wait for a message."""
        waits_for(action)
        self._receives.pop(action).wait(LONGEST)

    def send(self, action: Action, memory: torch.Tensor) -> None:
        """Begin to send a message."""
        work = self._backend.send([memory], action.peer, self._tag_of[action])
        self._sends.append((action, memory, work))

    def end(self, waits_for: Callable[[Action], None]) -> None:
        """Wait until all was sent."""
        for action, _, work in self._sends:
            waits_for(action)
            work.wait(LONGEST)
        self._sends, self._is_under_way = [], False

    def close(self) -> None:
        """End what waits; gloo itself ends with its last reference."""
        if not self._is_under_way:
            return
        # gloo's waits are given up by none but its own timeout, which ends all of its context. A
        # thread that came out of one while the interpreter ends would abort the process.
        for peer in {peer for _, peer in self._tags}:
            with suppress(RuntimeError):  # also where that peer is lost
                self._backend.recv([torch.empty(1)], peer, LARGEST_TAG).wait(_SHORTEST)


class Batches(Protocol):
    """Runs batches one after another; messages between two ranks match in the order given."""

    name: str

    def run(self, receives: Sequence[Addressed], sends: Sequence[Addressed]) -> None:
        """Move all messages of a batch before whatever is done next with their memory."""

    def end(self) -> None:
        """Wait until all batches have run."""

    def close(self) -> None:
        """Give back what it holds."""


class BatchedMessages:
    """One batch for the sends and receives of each step.

    NCCL has no tags, and operations of a communicator wait for each other. A send of step s waits
    only for arrivals of earlier steps, and every rank runs its batches by ascending step: the ranks
    of the least step that has not run have run all before it, so that it runs.
    """

    def __init__(self, batches: Batches) -> None:
        self.name = batches.name
        self._batches = batches
        self._receives: dict[int, list[tuple[Action, torch.Tensor]]] = {}
        self._sends: dict[int, list[tuple[Action, torch.Tensor]]] = {}
        self._steps: deque[int] = deque()

    def post(
        self, receives: Sequence[tuple[Action, torch.Tensor]], sends: Sequence[Action]
    ) -> None:
        """Put the messages of each step together."""
        self._receives, self._sends = {}, {action.step: [] for action in sends}
        for action, memory in receives:
            self._receives.setdefault(action.step, []).append((action, memory))
        self._steps = deque(sorted({*self._receives, *self._sends}))

    def receive(self, action: Action, waits_for: Callable[[Action], None]) -> None:
        """Run all batches up to the one that a message is in."""
        self._run_until(action.step, waits_for)

    def send(self, action: Action, memory: torch.Tensor) -> None:
        """Send a message in the batch of its step."""
        # Sends have ascending steps, and an arrival is asked for before the first send of a later
        # step: the batch has not run yet.
        self._sends[action.step].append((action, memory))

    def end(self, waits_for: Callable[[Action], None]) -> None:
        """Run what is left."""
        if self._steps:
            self._run_until(self._steps[-1], waits_for)
        self._batches.end()

    def close(self) -> None:
        """Give back what runs batches."""
        self._batches.close()

    def _run_until(self, step: int, waits_for: Callable[[Action], None]) -> None:
        while self._steps and self._steps[0] <= step:
            now = self._steps.popleft()
            receives, sends = self._receives.pop(now, []), self._sends.pop(now, [])
            waits_for((receives or sends)[0][0])
            self._batches.run(
                [(memory, action.peer) for action, memory in receives],
                [(memory, action.peer) for action, memory in sends],
            )


class NcclBatches:
    """Batches of NCCL on the current stream of the thread that runs them.

    Nothing waits on the host before `end`. The ranks of a group must be on different GPUs. No GPU
    has run this class; tests run `BatchedMessages` with batches of gloo.
    """

    name = "nccl"

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._device: torch.device | None = None

    def run(self, receives: Sequence[Addressed], sends: Sequence[Addressed]) -> None:
        """Move all messages of a batch; what is queued on the stream later waits for it."""
        device = (receives or sends)[0][0].device
        with torch.cuda.device(device):
            if self._device is None:
                # Not all ranks have messages in the first batch, and NCCL connects all at once.
                self._backend.eager_connect_single_device(device)
                self._device = device
            self._backend._start_coalescing()
            for memory, peer in receives:
                self._backend.recv([memory], peer, 0)
            for memory, peer in sends:
                self._backend.send([memory], peer, 0)
            self._backend._end_coalescing().wait()

    def end(self) -> None:
        """Wait until the stream has run all batches."""
        if self._device is not None:
            torch.cuda.current_stream(self._device).synchronize()

    def close(self) -> None:
        """End the communicator, with what waits on the GPU for a rank that will not come."""
        self._backend.abort()
