"""Fused and stepwise runs have the bits of execute, block by block."""

from functools import partial

import numpy as np
import pytest

from multitree import build, ring, torus
from multitree.host.buffers import to_array, to_tensor
from multitree.host.tensors.programs import compiled
from multitree.topology.collectives import DTYPES
from tests.host.devices import on_every_device
from tests.host.tensors.schedules import OTHERS, check_memory, expected, naive, name_of, schedules
from tests.host.values import bits, make_buffers, odd_buffers

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so its engine is untested")

MODES = ("fused", "stepwise")
LENGTHS = (1, 3, 17, 61, 1000)


@pytest.fixture
def executor():
    from multitree.host.tensors.executor import TorchExecutor

    return TorchExecutor()


@pytest.fixture(params=[None, 7, 64], ids=["whole", "blocks of 7", "blocks of 64"])
def block_elements(request, monkeypatch):
    """Blocks that cut chunks anywhere, or hold several waves; without it, as they are."""
    if request.param is not None:
        from multitree.host.tensors import fused

        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
        monkeypatch.setattr(fused, "BLOCK_BYTES_PER_THREAD", 4 * request.param)
    return request.param


@pytest.mark.dear
@on_every_device
@pytest.mark.parametrize("schedule", schedules(), ids=name_of)
def test_every_memory_equals_execute_bit_for_bit(executor, schedule, block_elements, device):
    for mode in MODES:
        check_memory(partial(executor.execute, mode=mode), schedule, LENGTHS, device)


@on_every_device
@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("mode", MODES)
def test_other_operators_equal_a_combination_of_every_row(executor, mode, collective, device):
    schedule = build(torus(4, 4), "multitree", collective)
    for dtype in DTYPES:
        memory = to_tensor(odd_buffers(3, 16, 1000, dtype))
        for op in OTHERS[dtype]:
            image = executor.execute(schedule, memory.to(device), op, mode=mode)
            right = naive(schedule, memory, op)
            assert (bits(to_array(image)) == bits(to_array(right))).all(), (dtype, op)


@on_every_device
@pytest.mark.parametrize("mode", MODES)
def test_results_go_where_they_are_wanted(executor, mode, device):
    schedule, values = build(torus(4, 4), "multitree"), make_buffers(4, 16, 999)
    right = bits(expected(schedule, values, "sum"))
    # Memory and results that begin in the middle of others, memory with room between its rows.
    zeros = partial(torch.zeros, device=device)
    for memory in (zeros(18, 999)[1:17], zeros(16, 1010)[:, 5:1004]):
        memory.copy_(torch.from_numpy(values))
        out = zeros(18, 999)[1:17]
        result = executor.execute(schedule, memory, mode=mode, out=out)
        assert result is out
        assert (bits(to_array(out)) == right).all()


@pytest.mark.parametrize("mode", MODES)
def test_chunks_are_cut_at_flits_of_any_size(executor, mode):
    schedule, values = build(torus(4, 4), "multitree"), make_buffers(4, 16, 999)
    image = executor.execute(schedule, torch.from_numpy(values), mode=mode, flit_bytes=64)
    assert (bits(image.numpy()) == bits(expected(schedule, values, "sum", flit_bytes=64))).all()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (None, "Out must be other memory"),
        (torch.zeros(4, 7), "Out must have the shape of memory"),
        (torch.zeros(4, 8, dtype=torch.int32), "Out must have the dtype of memory"),
        (torch.zeros(4, 8, device="meta"), "Out must have the device of memory, cpu, not meta"),
        (torch.zeros(8, 4).T, "Out must be contiguous"),
    ],
)
def test_out_that_is_not_like_memory_or_is_it_is_refused(executor, out, message):
    schedule, memory = build(torus(2, 2), "multitree"), torch.zeros(4, 8)
    with pytest.raises(ValueError, match=message):
        executor.execute(schedule, memory, out=memory if out is None else out)


@pytest.mark.parametrize(
    ("op", "mode", "error", "message"),
    [
        ("avg", "auto", ValueError, "Operator must be one of sum, average, .*not 'avg'"),
        ("average", "auto", TypeError, "Buffers must be floats for an average, not torch.int32"),
        ("sum", "fast", ValueError, "Mode must be one of auto, fused, stepwise, not 'fast'"),
    ],
)
def test_unknown_operators_and_modes_are_refused(executor, op, mode, error, message):
    with pytest.raises(error, match=message):
        memory = torch.zeros(4, 0, dtype=torch.int32)
        executor.execute(build(torus(2, 2), "multitree"), memory, op, mode=mode)


def test_auto_is_fused_from_a_number_of_bytes_per_flow_on(executor):
    from multitree.host.tensors.executor import FUSED_FLOW_BYTES

    schedule = build(ring(4), "multitree")
    for n, mode in ((FUSED_FLOW_BYTES - 1, "stepwise"), (FUSED_FLOW_BYTES, "fused")):
        executor._plans.clear()
        executor.execute(schedule, torch.zeros(4, n))
        assert [key[0].__name__.lower() for key in executor._plans] == [f"{mode}plan"]


def test_scratch_memory_is_a_block_per_level_and_not_one_per_rank():
    from multitree.host.tensors.fused import FusedPlan

    for algorithm, most in (("multitree", 4), ("ring", 1)):
        schedule = build(torus(4, 4), algorithm)
        assert 0 < FusedPlan.of(schedule).num_slots <= most


def test_trees_that_are_equal_but_for_names_share_a_program():
    schedule = build(torus(4, 4), "ring", "reduce_scatter")
    (family,) = compiled(schedule)
    assert family.flows.tolist() == list(range(16))
    # Place 0 is the root's; the sum of all is the last of 15 additions, and the root has it.
    assert (family.ranks[:, 0] == schedule.flow_roots).all()
    assert family.program.finals[0] == 16 + 14
    assert (np.sort(family.ranks, axis=1) == np.arange(16)).all()
