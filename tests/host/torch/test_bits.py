"""The backend has the bits of execute, on every transport, for every collective."""

import itertools
from collections import Counter

import pytest

from multitree import Communicator, execute, parse_topology
from multitree.host.buffers import to_array, to_tensor
from multitree.host.work import average_of
from multitree.topology.collectives import DTYPES
from tests.host.devices import on_every_device, own_stream
from tests.host.torch.ranks import run_ranks
from tests.host.values import bits, make_buffers, odd_buffers

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402

from multitree.host.torch import assembly  # noqa: E402
from multitree.host.torch.messages import BatchedMessages, PostedMessages  # noqa: E402
from multitree.torch import Options, group_of  # noqa: E402
from tests.host.tensors.test_invariant import summed  # noqa: E402

LENGTHS = (0, 1, 5, 64, 1000, 40_001)
CASES = [
    ("full:4", "multitree"),
    ("torus:2x2", "symmetric"),
    ("mesh:2x2", "forest"),
    ("ring:4", "bidirectional_ring"),
    ("fat_tree:2x2", "double_tree"),
    ("hypercube:2", "halving_doubling"),
]
OPS = {"sum": "SUM", "max": "MAX", "average": "AVG"}


# Length, type and operation of each all-reduce.
ASKED = [
    each for each in itertools.product(LENGTHS, DTYPES, OPS) if each[1:] != ("int32", "average")
]


class GlooBatches:
    """Batches of gloo, which may come in any order between two ranks but for their tags."""

    name = "batches"

    def __init__(self, backend):
        self.backend, self.tags = backend, Counter()

    def run(self, receives, sends):
        works = []
        for move, side in ((self.backend.recv, receives), (self.backend.send, sends)):
            for memory, peer in side:
                works.append(move([memory], peer, self.tags[move.__name__, peer]))
                self.tags[move.__name__, peer] += 1
        for work in works:
            work.wait()

    def end(self):
        pass

    def close(self):
        pass


def all_reduces(rank, num_ranks, spec, algorithm, transport, device):
    """Words of every all-reduce at this rank."""
    if transport == "batches":
        # In this process alone.
        assembly.PostedMessages = lambda backend: BatchedMessages(GlooBatches(backend))
        transport = "gloo"
    options = Options(topology=spec, algorithm=algorithm, transport=transport)
    group = dist.new_group(backend="multitree", pg_options=options)
    results = []
    for n, dtype, op in ASKED:
        tensor = to_tensor(odd_buffers(n, 4, n, dtype)[rank].copy()).to(device)
        dist.all_reduce(tensor, getattr(dist.ReduceOp, OPS[op]), group=group)
        results.append(bits(to_array(tensor.cpu())))
    assert {engine for _, engine in group_of(group).counts} == {"torch"}
    expected = "batches" if assembly.PostedMessages is not PostedMessages else transport
    assert {report.transport for report in group_of(group).reports} == {expected}
    return results


@on_every_device
@pytest.mark.parametrize("transport", ["shared_memory", "gloo", "batches"])
@pytest.mark.parametrize(("spec", "algorithm"), CASES)
def test_an_all_reduce_has_the_bits_of_execute_on_every_rank(spec, algorithm, transport, device):
    ranks = run_ranks(all_reduces, 4, spec, algorithm, transport, device)
    comm = Communicator(parse_topology(spec), algorithm=algorithm)
    for place, (n, dtype, op) in enumerate(ASKED):
        # A forest suits its schedule to the size.
        schedule = comm.schedule(size_bytes=max(n, 1) * DTYPES[dtype].itemsize)
        right = execute(schedule, odd_buffers(n, 4, n, dtype), "max" if op == "max" else "sum")
        if op == "average":
            right = average_of(right, 4)
        for rank in range(4):
            assert (ranks[rank][place] == bits(right[rank])).all(), (n, dtype, op, rank)


def between(rank, num_ranks, transport, device):
    """All values of a tensor that is added to before and after an all-reduce."""
    options = Options(topology="torus:2x2", transport=transport)
    group = dist.new_group(backend="multitree", pg_options=options)
    with own_stream(device):
        mine = torch.zeros(1 << 18, device=device)
        for _ in range(100):
            mine += 1
        dist.all_reduce(mine, group=group)
        mine += rank
        return mine.unique().tolist()


@on_every_device
@pytest.mark.parametrize("transport", ["shared_memory", "gloo"])
def test_an_all_reduce_is_between_what_the_caller_does_before_and_after(transport, device):
    assert run_ranks(between, 4, transport, device) == [[400.0 + rank] for rank in range(4)]


def invariant_sums(rank, num_ranks):
    """An all-reduce, a reduce and a reduce-scatter by two schedules, against one definition."""
    for dtype in (torch.float32, torch.bfloat16):
        drawn = to_tensor(make_buffers(1, num_ranks, 1000)).to(dtype)
        right = summed(drawn)
        for topology, algorithm in (("torus:2x2", "multitree"), ("ring:4", "ring")):
            options = Options(topology=topology, algorithm=algorithm, reproducible="invariant")
            group = dist.new_group(backend="multitree", pg_options=options)
            mine = drawn[rank].clone()
            dist.all_reduce(mine, group=group)
            assert torch.equal(mine, right)
            mine = drawn[rank].clone()
            dist.reduce(mine, 2, group=group)
            assert torch.equal(mine, right if rank == 2 else drawn[rank])
            part = torch.empty(1000 // num_ranks, dtype=dtype)
            dist.reduce_scatter(part, list(drawn[rank].chunk(num_ranks)), group=group)
            assert torch.equal(part, right.chunk(num_ranks)[rank])
            ran = [(each.collective, each.op, each.dtype) for each in group_of(group).reports]
            assert ran[::2] == [("all_reduce", "max", "int32")] * 3
            sums = ("all_reduce", "reduce", "reduce_scatter")
            assert ran[1::2] == [(collective, "sum", "int32") for collective in sums]


def test_sums_are_those_of_the_definition_whatever_the_schedule():
    run_ranks(invariant_sums, 4)
