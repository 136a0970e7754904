"""Ranks of one host read each other's chunks in shared memory."""

from collections.abc import Sequence

import torch

from multitree.host.distributed.execution import Run, Slices, copy_chunk
from multitree.host.distributed.rank_program import Action, Kind
from multitree.host.distributed.transports.arrivals import Arrivals, split_like
from multitree.host.peers.connections import Connection
from multitree.host.peers.frames import Frame, FrameKind
from multitree.host.peers.progress import Steps, Waiting
from multitree.host.peers.shared_memory import ALIGNMENT_BYTES, SharedMemory
from multitree.topology.collectives import Op

__all__ = ["SharedMemoryTransport"]


class SharedMemoryTransport:
    """Ranks of one host read each other's chunks where these were computed.

    A contribution is copied to shared memory only where no sum is made of it first; a result is
    copied once to each rank, from the rank that computed it: who passes it on passes on where it
    lies.
    """

    name = "shared_memory"

    def __init__(
        self,
        rank: int,
        connections: dict[int, Connection],
        shared: SharedMemory,
        arrivals: Arrivals,
    ) -> None:
        self._rank = rank
        self._connections = connections
        self._shared = shared
        self._arrivals = arrivals
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

    def close(self) -> None:
        """Nothing: memory ends with the mappings."""

    def _slices(self, flow: int, template: Slices) -> Slices:
        return self._view(*self._places[flow], template)

    def _view(self, rank: int, place: int, template: Slices) -> Slices:
        length = sum(len(part) for part in template)
        return split_like(self._shared.view(rank, place, length, template[0].dtype), template)


def _num_bytes(slices: Sequence[torch.Tensor]) -> int:
    return sum(part.numel() * part.element_size() for part in slices)
