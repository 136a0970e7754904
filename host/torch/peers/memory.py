"""Memory that ranks of one host share, of a fixed size for each rank and group."""

import mmap
import os
import tempfile
from collections import deque
from functools import partial
from typing import TypeAlias

import numpy as np
import torch

from multitree.host.torch.peers.connections import Connection
from multitree.host.torch.peers.frames import Frame, FrameKind

__all__ = ["ALIGNMENT_BYTES", "SLOT_BYTES", "SharedMemory"]

ALIGNMENT_BYTES = 64
SLOT_BYTES = 8 << 20
"""What a rank can write in one round; longer collectives have several rounds."""

_NUM_SLOTS = 2
_COUNTER_BYTES = 4096
_BLOCKS_BEGIN = _COUNTER_BYTES + _NUM_SLOTS * SLOT_BYTES
_BLOCKS_BYTES = 4 << 20
_TOTAL_BYTES = _BLOCKS_BEGIN + _BLOCKS_BYTES
_TAKEN = 1

Bytes: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint8]]"


class SharedMemory:
    """This rank's memory, and that of the others as far as it was announced.

    It begins with the number of rounds that a rank has done. Two slots follow, used by even and odd
    rounds: a rank may begin a round while others still read what it wrote in the last one. Behind
    them are blocks, each with a message that was sent and perhaps not yet taken. Pages that were
    never written to take no memory.
    """

    def __init__(self, rank: int, connections: dict[int, Connection]) -> None:
        self._rank = rank
        self._connections = connections
        descriptor = _anonymous_file(_TOTAL_BYTES)
        self._tensors = {rank: _mapped(descriptor)}
        self._bytes: dict[int, Bytes] = {rank: self._tensors[rank].numpy()}
        self._awaited_by: list[tuple[int, int]] = []
        self._used = 0
        self._blocks: deque[tuple[int, int]] = deque()
        for connection in connections.values():
            # Each is closed once it was sent, which may be later for one connection than another.
            copy = os.dup(descriptor)
            connection.send(
                Frame(FrameKind.MEMORY), descriptor=copy, when_sent=partial(_close, copy)
            )
        os.close(descriptor)

    def take(self, peer: int, frame: Frame, descriptor: int) -> None:
        """Map what another rank has announced."""
        self._tensors[peer] = _mapped(descriptor)
        self._bytes[peer] = self._tensors[peer].numpy()
        os.close(descriptor)

    def is_mapped(self, rank: int) -> bool:
        """Whether the memory of a rank has been announced."""
        return rank in self._tensors

    # Rounds of collectives.

    @property
    def num_rounds(self) -> int:
        """Rounds that this rank has done: the number of the one that runs."""
        return self._num_rounds_of(self._rank)

    def _num_rounds_of(self, rank: int) -> int:
        return int(self._bytes[rank][:8].view(np.int64)[0])

    def behind(self) -> list[int]:
        """Ranks that may still read the slot that the next round is to use."""
        least = self.num_rounds + 1 - _NUM_SLOTS
        return [
            peer
            for peer in self._connections
            if least > 0 and not (peer in self._bytes and self._num_rounds_of(peer) >= least)
        ]

    def ask(self, peer: int) -> None:
        """Have a rank answer once it is not behind any more."""
        wanted = self.num_rounds + 1 - _NUM_SLOTS
        self._connections[peer].send(Frame(FrameKind.AWAIT, sequence=wanted))

    def answer(self, peer: int, frame: Frame) -> None:
        """Take a question of another rank, which is answered at once or after a later round."""
        self._awaited_by.append((peer, frame.sequence))
        self._answer_all()

    def _answer_all(self) -> None:
        for entry in [entry for entry in self._awaited_by if entry[1] <= self.num_rounds]:
            self._awaited_by.remove(entry)
            self._connections[entry[0]].send(Frame(FrameKind.DONE, sequence=entry[1]))

    def begin_round(self) -> None:
        """Take the slot of the next round."""
        self._used = 0

    def end_round(self) -> None:
        """Say that this rank reads nothing any more that others wrote in the round."""
        # Whoever sees this value may overwrite what was read before. The interpreter's lock is
        # released and taken with every copy, which orders the reads before this write.
        self._bytes[self._rank][:8].view(np.int64)[0] += 1
        if self._awaited_by:
            self._answer_all()

    def allocate(self, num_bytes: int) -> int:
        """A place in the slot of the round."""
        place = _COUNTER_BYTES + self.num_rounds % _NUM_SLOTS * SLOT_BYTES + self._used
        self._used += _aligned(num_bytes)
        assert self._used <= SLOT_BYTES, "rounds are cut so that slots are large enough"
        return place

    def view(self, rank: int, place: int, num_elements: int, dtype: torch.dtype) -> torch.Tensor:
        """A place of some rank as a tensor of one dimension."""
        return self._tensors[rank][place : place + num_elements * dtype.itemsize].view(dtype)

    # Blocks with messages.

    def put(self, data: memoryview) -> int | None:
        """Copy a message to a block; its place, or None if there is no room."""
        own, length = self._bytes[self._rank], ALIGNMENT_BYTES + _aligned(len(data))
        while self._blocks and own[self._blocks[0][0]] == _TAKEN:
            self._blocks.popleft()
        # Blocks are a ring: free is what lies behind the newest and before the oldest.
        oldest = self._blocks[0][0] if self._blocks else _TOTAL_BYTES
        place = self._blocks[-1][1] if self._blocks else _BLOCKS_BEGIN
        if place >= oldest or not self._blocks:
            if place + length > _TOTAL_BYTES:
                place = _BLOCKS_BEGIN
            else:
                oldest = _TOTAL_BYTES
        if place + length > oldest:
            return None
        self._blocks.append((place, place + length))
        begin = place + ALIGNMENT_BYTES
        own[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
        own[place] = 0
        return place

    def read(self, rank: int, place: int, memory: memoryview | None) -> None:
        """Copy a message of another rank, unless there is no memory for it, and free its block."""
        block = self._bytes[rank]
        if memory is not None:
            begin = place + ALIGNMENT_BYTES
            np.frombuffer(memory, np.uint8)[:] = block[begin : begin + len(memory)]
        block[place] = _TAKEN


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


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


def _mapped(descriptor: int) -> torch.Tensor:
    """The bytes of a file, which end with the tensor."""
    # An `mmap` would keep a descriptor open.
    path = f"/proc/self/fd/{descriptor}"
    if os.path.exists(path):
        return torch.from_file(path, shared=True, size=_TOTAL_BYTES, dtype=torch.uint8)
    return torch.frombuffer(mmap.mmap(descriptor, _TOTAL_BYTES), dtype=torch.uint8)
