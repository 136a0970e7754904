"""Shared memory of a fixed size: rounds of long collectives, blocks with messages."""

import os
import random
import socket
import tempfile

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402

from multitree.host.torch import shared_memory  # noqa: E402
from multitree.host.torch.peers import memory  # noqa: E402
from multitree.host.torch.peers.connections import Connection  # noqa: E402
from tests.host.torch.ranks import run_ranks  # noqa: E402

SEED = 8
LARGEST = 1 << 20


@pytest.fixture
def ranks():
    """The memory of two ranks, each of which has mapped that of the other."""
    connections = [Connection(end, 1 - rank) for rank, end in enumerate(socket.socketpair())]
    made = [memory.SharedMemory(rank, {1 - rank: connections[rank]}) for rank in range(2)]
    for mine, connection in zip(made, connections, strict=True):
        for frame, _ in connection.receive(lambda peer, frame: memoryview(b"")):
            mine.take(connection.peer, frame, connection.descriptors.popleft())
    yield made
    for connection in connections:
        connection.close()


def test_memory_is_a_file_that_no_killed_process_leaves_behind(monkeypatch):
    for made_by in ("/memfd:multitree", tempfile.gettempdir()):
        descriptor = memory._anonymous_file(3)
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        assert name.startswith(made_by) and name.endswith(" (deleted)")
        assert os.fstat(descriptor).st_size == 3
        os.close(descriptor)
        monkeypatch.delattr(os, "memfd_create", raising=False)


def test_messages_in_blocks_are_what_was_put_there_in_whatever_order_they_are_taken(ranks):
    drawn = random.Random(SEED)
    left, num_refused = [], 0
    for number in range(150):
        data = bytes([number % 256]) * drawn.randrange(1, LARGEST)
        place = ranks[0].put(memoryview(data))
        num_refused += place is None
        if place is not None:
            left.append((place, data))
        while left and (place is None or drawn.random() < 0.4):
            taken, right = left.pop(drawn.randrange(len(left)))
            into = bytearray(len(right))
            ranks[1].read(0, taken, memoryview(into))
            assert into == right, f"seed {SEED}"
    assert 0 < num_refused < 100
    for taken, _ in left:
        ranks[1].read(0, taken, None)
    assert ranks[0].put(memoryview(bytes(LARGEST))) is not None
    assert ranks[0].put(memoryview(bytes(4 * LARGEST))) is None


def test_a_mapping_keeps_no_descriptor(ranks):
    names = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    assert not [name for name in names if "memfd:multitree" in name]


def in_rounds(rank, num_ranks):
    """Results have the same bits in whatever number of rounds, and only so much memory is used."""
    torch.manual_seed(rank)
    mine, parts = torch.randn(50_001), [torch.randn(20_000 + to) for to in range(num_ranks)]
    results = []
    for slot_bytes in (shared_memory.SLOT_BYTES, 1 << 15):
        shared_memory.SLOT_BYTES = memory.SLOT_BYTES = slot_bytes
        group = dist.new_group()
        summed, reduced = mine.clone(), torch.zeros(20_000 + rank)
        gathered = [torch.zeros(length) for length in (7, 60_000, 0, 1)]
        dist.all_reduce(summed, dist.ReduceOp.AVG, group=group)
        dist.reduce_scatter(reduced, parts, group=group)
        dist.all_gather(gathered, torch.full((len(gathered[rank]),), float(rank)), group=group)
        results.append([summed, reduced, *gathered])
    for whole, cut in zip(*results, strict=True):
        assert torch.equal(whole, cut)
    assert all((part == other).all() for other, part in enumerate(gathered))


@pytest.mark.parametrize("topology", ["full:4", "torus:2x2"])
def test_long_collectives_run_in_rounds_with_the_same_bits(topology):
    run_ranks(in_rounds, 4, MULTITREE_TOPOLOGY=topology)
