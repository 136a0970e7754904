"""Shared memory of the ranks of one host: anonymous files that each rank maps."""

import mmap
import os
import tempfile
from functools import partial

import numpy as np
import torch

from multitree.host.peers.connections import Connection
from multitree.host.peers.frames import Frame, FrameKind

__all__ = ["ALIGNMENT_BYTES", "SharedMemory"]

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
