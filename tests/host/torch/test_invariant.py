"""Invariant sums of a group have the same bits in every topology and form."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402

from multitree.torch import Options, group_of  # noqa: E402
from tests.host.tensors.test_invariant import summed  # noqa: E402
from tests.host.torch.ranks import run_ranks  # noqa: E402

NUM_RANKS, LENGTH = 4, 4 * 250


def drawn(rank, dtype):
    torch.manual_seed(rank)
    scale = torch.exp2(torch.randint(-20, 21, (LENGTH,)).float())
    return (torch.randn(LENGTH) * scale).to(dtype)


def sums(rank, num_ranks):
    """An all-reduce, a reduce and a reduce-scatter by two schedules, against one definition."""
    for dtype in (torch.float32, torch.bfloat16):
        right = summed([drawn(other, dtype) for other in range(num_ranks)])
        for topology, algorithm in (("torus:2x2", "multitree"), ("ring:4", "ring")):
            options = Options(topology=topology, algorithm=algorithm, reproducible="invariant")
            group = dist.new_group(backend="multitree", pg_options=options)
            mine = drawn(rank, dtype)
            dist.all_reduce(mine, group=group)
            assert torch.equal(mine, right)
            mine = drawn(rank, dtype)
            dist.reduce(mine, 2, group=group)
            assert torch.equal(mine, right if rank == 2 else drawn(rank, dtype))
            part = torch.empty(LENGTH // num_ranks, dtype=dtype)
            dist.reduce_scatter(part, list(drawn(rank, dtype).chunk(num_ranks)), group=group)
            assert torch.equal(part, right.chunk(num_ranks)[rank])
            ran = [(each.collective, each.op, each.dtype) for each in group_of(group).reports]
            assert ran[::2] == [("all_reduce", "max", "int32")] * 3
            sums = ("all_reduce", "reduce", "reduce_scatter")
            assert ran[1::2] == [(collective, "sum", "int32") for collective in sums]


def test_sums_are_those_of_the_definition_whatever_the_schedule():
    run_ranks(sums, NUM_RANKS)
