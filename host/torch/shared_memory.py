"""Ranks of one host read each other's chunks in shared memory."""

import mmap
import os
import tempfile
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from multitree.host.torch.collective import ReadyFrames, Run, Slices, copy_chunk, split_like
from multitree.host.torch.layouts import Action, Kind
from multitree.host.torch.peers.connections import Connection
from multitree.host.torch.peers.frames import Frame, FrameKind
from multitree.host.torch.peers.progress import Steps, Waiting
from multitree.topology.collectives import Op

__all__ = ["ALIGNMENT_BYTES", "SharedMemory", "SharedMemoryTransport"]

ALIGNMENT_BYTES = 64
_NUM_SLOTS = 2
_LEAST_SLOT_BYTES = 1 << 16
_GENERATION_SHIFT = 48
_PLACE_MASK = (1 << _GENERATION_SHIFT) - 1
_COUNTER_BYTES = 4096


class SharedMemory:
    """This rank's shared memory, and that of the others as far as it was announced.

    Generation 0 of a rank is a page with the number of collectives it has done. Each later one has
    two slots, used by even and odd collectives: a rank may begin a collective while others still
    read what it wrote for the last one. A larger collective makes a new generation.
    """

    def __init__(self, rank: int, connections: dict[int, Connection]) -> None:
        self._rank = rank
        self._connections = connections
        self._maps: dict[tuple[int, int], mmap.mmap] = {}
        self._generation = 0
        self._slot_bytes = 0
        self._used = self._slot_begin = 0
        self._announce(_COUNTER_BYTES)
        self._done = np.frombuffer(self._maps[rank, 0], np.int64, 1)
        self._others: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}

    def _announce(self, num_bytes: int) -> None:
        """Make a generation and pass its descriptor to all other ranks."""
        descriptor = _anonymous_file(num_bytes)
        self._maps[self._rank, self._generation] = mmap.mmap(descriptor, num_bytes)
        frame = Frame(FrameKind.MEMORY, index=self._generation, offset=num_bytes)
        left = [c for c in self._connections.values() if not c.is_closed]
        # Each is closed once it was sent, which may be later for one connection than for another.
        copies = [os.dup(descriptor) for _ in left]
        os.close(descriptor)
        for connection, copy in zip(left, copies, strict=True):
            connection.send(frame, descriptor=copy, when_sent=partial(_close, copy))

    def take(self, peer: int, frame: Frame, descriptor: int) -> None:
        """Map what another rank has announced."""
        self._maps[peer, frame.index] = mmap.mmap(descriptor, frame.offset)
        os.close(descriptor)
        if frame.index == 0:
            self._others[peer] = np.frombuffer(self._maps[peer, 0], np.int64, 1)
        # Collectives that use the one before may still run; older ones cannot.
        self._maps.pop((peer, frame.index - 2) if frame.index > 2 else (peer, -1), None)

    def mark_done(self, sequence: int) -> None:
        """Say that this rank reads nothing any more that others wrote up to a collective."""
        # Whoever sees this value may overwrite what was read before. The interpreter's lock is
        # released and taken with every copy, which orders the reads before this write.
        self._done[0] = sequence + 1

    def behind(self, sequence: int) -> list[int]:
        """Ranks that may still read the slot that a collective is to use."""
        least = sequence + 1 - _NUM_SLOTS
        if least <= 0:
            return []
        return [
            peer
            for peer in self._connections
            if peer not in self._others or self._others[peer][0] < least
        ]

    def begin(self, sequence: int, num_bytes: int) -> None:
        """Take the slot of a collective, with room for so many bytes in all."""
        if num_bytes > self._slot_bytes:
            wanted = max(num_bytes, _LEAST_SLOT_BYTES, min(2 * self._slot_bytes, 1 << 30))
            self._slot_bytes = -(-wanted // mmap.PAGESIZE) * mmap.PAGESIZE
            self._generation += 1
            self._announce(_NUM_SLOTS * self._slot_bytes)
            self._maps.pop((self._rank, self._generation - 2), None)
        self._slot_begin = sequence % _NUM_SLOTS * self._slot_bytes
        self._used = 0

    def allocate(self, num_bytes: int) -> int:
        """A place in the slot, as others find it: generation and offset in one number."""
        place = self._slot_begin + self._used
        self._used += -(-num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return self._generation << _GENERATION_SHIFT | place

    def is_mapped(self, rank: int, place: int) -> bool:
        """Whether the memory of a place has been announced."""
        return (rank, place >> _GENERATION_SHIFT) in self._maps

    def view(self, rank: int, place: int, num_elements: int, dtype: torch.dtype) -> torch.Tensor:
        """A place of some rank as a tensor of one dimension."""
        if num_elements == 0:
            return torch.empty(0, dtype=dtype)
        memory = self._maps[rank, place >> _GENERATION_SHIFT]
        return torch.frombuffer(memory, dtype=dtype, count=num_elements, offset=place & _PLACE_MASK)


def _close(descriptor: int, error: Exception | None) -> None:
    """Close a descriptor that was sent, or cannot be."""
    os.close(descriptor)


def _anonymous_file(num_bytes: int) -> int:
    """Descriptor of a file in memory without a name."""
    # Nothing is left behind when a process is killed.
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("multitree")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, num_bytes)
    return descriptor


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
        ready: ReadyFrames,
    ) -> None:
        self._rank = rank
        self._connections = connections
        self._shared = shared
        self._ready = ready
        self._places: dict[int, tuple[int, int]] = {}

    def begin(self, run: Run) -> Steps[None]:
        """Take a slot once the others have read what was in it."""
        self._ready.begin(run.sequence)
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

    def accumulator(self, run: Run, action: Action) -> Slices:
        """A place in this rank's slot, the same for all contributions to a flow."""
        template = run.flows.template(action.flow)
        if action.flow not in self._places:
            place = self._shared.allocate(_num_bytes(template))
            self._places[action.flow] = self._rank, place
        return self._slices(action.flow, template)

    def receive(self, run: Run, action: Action) -> Steps[Slices]:
        """The other rank's chunk, where it lies."""
        while (frame := self._ready.find(run, action)) is None or not self._shared.is_mapped(
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
            copy_chunk(value, self.accumulator(run, action))
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
