"""Ranks send each other chunks as messages of gloo or NCCL."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Protocol

import torch

from multitree.host.distributed.execution import Run, Slices
from multitree.host.distributed.rank_program import Action, Kind
from multitree.host.distributed.transports.arrivals import Arrivals, split_like
from multitree.host.peers.connections import Connection
from multitree.host.peers.failures import ANSWER_S
from multitree.host.peers.frames import Frame, FrameKind
from multitree.host.peers.progress import Progress, Steps, Waiting
from multitree.topology.collectives import Op

__all__ = ["MessageTransport", "Messages"]


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
        arrivals: Arrivals,
    ) -> None:
        self.name = messages.name
        self._messages = messages
        self._connections = connections
        self._progress = progress
        self._arrivals = arrivals
        self._landings: dict[Action, torch.Tensor] = {}
        self._rooms: dict[int, torch.Tensor] = {}
        self._scratch = _Scratch()
        self._waiting = Waiting(-1)

    def begin(self, run: Run) -> Steps[None]:
        """Agree with the others, then post every receive."""
        self._arrivals.begin(run.sequence)
        of_kind: dict[Kind, list[Action]] = {Kind.SEND: [], Kind.TAKE: []}
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
        for action in of_kind[Kind.TAKE]:
            self._waiting = Waiting(action.peer, action.flow, action.step)
            while self._arrivals.find(run, action) is None:
                yield self._waiting
        self._rooms = {}
        receives = [(action, self._landing(run, action)) for action in of_kind[Kind.TAKE]]
        self._landings = dict(receives)
        try:
            self._messages.post(receives, of_kind[Kind.SEND])
        except RuntimeError:
            yield from self._wait_for_the_cause()
            raise
        # All that comes is announced: a rank that has sent its part may leave before it is taken.
        self._waiting = replace(self._waiting, is_moving=True)

    def _landing(self, run: Run, action: Action) -> torch.Tensor:
        """Memory for a chunk that comes: its target where it is one piece, else its own."""
        targets = run.flows.targets.get(action.flow)
        if action.op == Op.GATHER and targets is not None and len(targets) == 1:
            return targets[0]
        return self._scratch.take(run.flows.template(action.flow))

    def room(self, run: Run, action: Action) -> Slices:
        """Where the result goes, too, or memory of this collective alone."""
        # A result arrives only once this rank's sum has been received whole: both may lie in the
        # same place.
        targets = run.flows.targets.get(action.flow)
        if targets is not None:
            return targets
        template = run.flows.template(action.flow)
        if action.flow not in self._rooms:
            self._rooms[action.flow] = self._scratch.take(template)
        return split_like(self._rooms[action.flow], template)

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
        memory = self._landings.pop(action)
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
        self._waiting = Waiting(action.peer, action.flow, action.step, is_moving=True)


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
