"""Ranks of one host read each other's chunks in shared memory."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from multitree.host.torch.collective import (
    ROUND_SHIFT,
    Flows,
    ReadyFrames,
    Run,
    Slices,
    copy_chunk,
    split_like,
)
from multitree.host.torch.layouts import Action
from multitree.host.torch.peers.connections import Connection
from multitree.host.torch.peers.frames import Frame, FrameKind
from multitree.host.torch.peers.memory import ALIGNMENT_BYTES, SLOT_BYTES, SharedMemory
from multitree.host.torch.peers.progress import Steps, Waiting
from multitree.topology.collectives import Op

__all__ = ["SharedMemoryTransport"]

_PLACE_MASK = (1 << ROUND_SHIFT) - 1


class SharedMemoryTransport:
    """Ranks of one host read each other's chunks where these were computed.

    A contribution is copied to shared memory only where no sum is made of it first; a result is
    copied once to each rank, from the rank that computed it: who passes it on passes on where it
    lies. A collective that does not fit runs in rounds, each on a part of every slice.
    """

    name = "shared_memory"

    def __init__(
        self,
        rank: int,
        connections: dict[int, Connection],
        shared: SharedMemory,
        ready: ReadyFrames,
    ) -> None:
        self._rank = rank
        self._connections = connections
        self._shared = shared
        self._ready = ready
        self._places: dict[int, tuple[int, int]] = {}

    def rounds(self, run: Run) -> Iterator[Run]:
        """Parts that fit in a slot, of the same number and sizes at all ranks."""
        every = {**run.flows.sources, **run.flows.targets}
        slices = [part for value in every.values() for part in value]
        # Every part of a slice is rounded up twice, as it is cut and as it gets a place.
        room = max(SLOT_BYTES - 2 * ALIGNMENT_BYTES * len(slices), ALIGNMENT_BYTES)
        total = sum(part.numel() * part.element_size() for part in slices)
        count = max(-(-total // room), 1)
        for number in range(count):
            sources = _parts_of(run.flows.sources, number, count)
            flows = Flows(sources, _parts_of(run.flows.targets, number, count))
            yield replace(run, flows=flows, round=number) if count > 1 else run

    def begin(self, run: Run) -> Steps[None]:
        """Take a slot once the others have read what was in it."""
        self._ready.begin(run.sequence)
        for peer in self._shared.behind():
            self._shared.ask(peer)
            while peer in self._shared.behind():
                yield Waiting(peer)
        self._shared.begin_round()
        self._places = {}

    def advance(self, actions: Steps[None]) -> Steps[None]:
        """Run the actions here."""
        yield from actions

    def accumulator(self, run: Run, action: Action) -> Slices:
        """A place in this rank's slot, the same for all contributions to a flow."""
        template = run.flows.template(action.flow)
        if action.flow not in self._places:
            num_bytes = sum(part.numel() * part.element_size() for part in template)
            self._places[action.flow] = self._rank, self._shared.allocate(num_bytes)
        return self._view(*self._places[action.flow], template)

    def receive(self, run: Run, action: Action) -> Steps[Slices]:
        """The other rank's chunk, where it lies."""
        while (frame := self._ready.find(run, action)) is None or not self._shared.is_mapped(
            frame.length
        ):
            yield Waiting(action.peer, action.flow, action.step)
        home, place = frame.length, frame.offset & _PLACE_MASK
        if action.op == Op.GATHER:
            self._places[action.flow] = home, place
        return self._view(home, place, run.flows.template(action.flow))

    def send(self, run: Run, action: Action, value: Slices) -> None:
        """Say where the chunk lies; it is copied there if it is not."""
        if action.flow not in self._places:
            copy_chunk(value, self.accumulator(run, action))
        home, place = self._places[action.flow]
        frame = Frame(
            FrameKind.READY,
            action.op,
            action.flow,
            run.sequence,
            run.round << ROUND_SHIFT | place,
            home,
            run.fingerprint,
        )
        self._connections[action.peer].send(frame)

    def end(self, run: Run) -> Steps[None]:
        """Free the slots that were read; others read only what is in shared memory."""
        self._shared.end_round()
        yield from ()

    def close(self) -> None:
        """Nothing: memory ends with the mappings."""

    def _view(self, rank: int, place: int, template: Slices) -> Slices:
        length = sum(len(part) for part in template)
        return split_like(self._shared.view(rank, place, length, template[0].dtype), template)


def _parts_of(flows: dict[int, Slices], number: int, count: int) -> dict[int, Slices]:
    """One of so many parts of each slice."""
    return {
        flow: [_part_of(part, number, count) for part in value] for flow, value in flows.items()
    }


def _part_of(whole: torch.Tensor, number: int, count: int) -> torch.Tensor:
    step = max(ALIGNMENT_BYTES // whole.element_size(), 1)
    length = -(-len(whole) // (count * step)) * step
    return whole[number * length : (number + 1) * length]
