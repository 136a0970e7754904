"""Kernels have the bits of execute in the interpreter, and compile without a GPU."""

import re
from functools import partial
from types import SimpleNamespace

import pytest

from multitree import build, mesh, ring, torus
from multitree.host.buffers import to_array, to_tensor
from multitree.host.tensors.kernel_source import kernel_source
from multitree.host.tensors.programs import compiled
from multitree.topology.collectives import DTYPES
from tests.host.tensors.schedules import OTHERS, check_memory, expected, naive, name_of, schedules
from tests.host.values import bits, make_buffers, odd_buffers

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so its engine is untested")
triton = pytest.importorskip("triton", reason="Triton is not installed, so kernels are untested")

CPU = torch.device("cpu")


@pytest.fixture
def kernels(monkeypatch):
    """The module, its kernels made anew for the interpreter, with blocks that cut chunks."""
    from multitree.host.tensors import kernels

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(kernels, "BLOCK_ELEMENTS", 32)
    kernels.compiled_kernel.cache_clear()
    yield kernels
    kernels.compiled_kernel.cache_clear()


def run(kernels, schedule, memory, op, **options):
    plan = kernels.KernelPlan.of(schedule, memory.shape[1], 16 // memory.element_size(), CPU)
    return kernels.run_kernels(plan, memory, op, **options)


FEW = [s for s in schedules() if s.topology.num_ranks < 5] + [build(torus(4, 4), "multitree")]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("schedule", FEW, ids=lambda s: f"{s.topology.name}-{s.collective}")
def test_every_memory_equals_execute_bit_for_bit(kernels, schedule):
    check_memory(partial(run, kernels), schedule, (61,))


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("schedule", schedules(), ids=name_of)
def test_kernels_of_all_schedules_equal_execute_bit_for_bit(kernels, schedule):
    check_memory(partial(run, kernels), schedule, (1, 3, 17, 300))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", DTYPES)
def test_other_operators_equal_a_combination_of_every_row(kernels, dtype):
    schedule = build(mesh(3), "multitree")
    memory = to_tensor(odd_buffers(3, 3, 61, dtype))
    for op in OTHERS[dtype]:
        image, right = run(kernels, schedule, memory, op), naive(schedule, memory, op)
        assert (bits(to_array(image)) == bits(to_array(right))).all(), op


def test_results_go_where_they_are_wanted(kernels):
    schedule, values = build(torus(2, 2), "multitree"), make_buffers(4, 4, 77)
    out = torch.zeros(6, 77)[1:5]
    run(kernels, schedule, to_tensor(values), "sum", out=out)
    assert (bits(out.numpy()) == bits(expected(schedule, values, "sum"))).all()


PROBE = """
@triton.jit
def probe(values, results):
    places = tl.arange(0, 2)
    value = tl.load(values + places).to(tl.float32, bitcast=True)
    tl.store(results + places, combine(value, value).to(tl.int32, bitcast=True))
"""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_nan_of_a_gpu_stays_one_when_it_is_rounded_to_bfloat16(kernels):
    (family, *_) = compiled(build(ring(2), "multitree"))
    probe = kernels.functions_of(kernel_source(family.program, "bfloat16", "sum") + PROBE)["probe"]
    values, results = torch.tensor([0x7FFFFFFF, 0x3F800000]), torch.zeros(2, dtype=torch.int32)
    probe[(1,)](values.to(torch.int32), results)
    assert results.tolist() == [0x7FC00000, 0x40000000]


@pytest.mark.parametrize(
    ("dtype", "align", "bytes_per_load"), [("float32", 4, 16), ("bfloat16", 8, 16)]
)
@pytest.mark.parametrize("op", ["sum", "average"])
def test_compiled_code_neither_contracts_nor_flushes_and_moves_each_element_once(
    monkeypatch, tmp_path, op, dtype, align, bytes_per_load
):
    from triton.backends.compiler import GPUTarget

    from multitree.host.tensors import kernels

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels.compiled_kernel.cache_clear()
    (family, *_) = compiled(build(ring(4), "multitree"))
    kernel = kernels.compiled_kernel(family.program, dtype, op)
    elements = "*i32" if dtype == "float32" else "*i16"
    types = [elements, elements, "*i64", "*i32", "i64", "i64", "i64", "i32", *["constexpr"] * 3]
    source = triton.compiler.ASTSource(
        fn=kernel,
        signature=dict(zip(kernel.arg_names, types, strict=True)),
        constexprs={(8,): align, (9,): True, (10,): 1024},
        attrs={(argument,): [["tt.divisibility", 16]] for argument in range(7)},
    )
    target, options = GPUTarget("cuda", 90, 32), kernels.CUDA_OPTIONS
    code = triton.compile(source, target=target, options=options).asm["ptx"]
    assert "fma" not in code and "ftz" not in code
    # 8 elements per thread and rank.
    assert len(re.findall(r"add\.rn\.f32", code)) == 3 * 8
    assert len(re.findall(r"div\.rn\.f32", code)) == (8 if op == "average" else 0)
    of_rank = 8 * (4 if dtype == "float32" else 2) // bytes_per_load
    assert len(re.findall(r"ld\.global\.v4\.b32", code)) == 4 * of_rank
    assert len(re.findall(r"st\.global\.v4\.b32", code)) == 4 * of_rank


def test_the_text_loads_and_stores_each_rank_once():
    for schedule in schedules():
        for family in compiled(schedule):
            text = kernel_source(family.program, "float32", "sum")
            stores = re.findall(r"^    store\(result, ranks, (\d+)", text, re.MULTILINE)
            assert sorted(map(int, stores)) == list(range(schedule.topology.num_ranks))
            loads = re.findall(r"= load\(memory, ranks, (\d+)", text)
            assert len(set(loads)) == len(loads)


@pytest.mark.parametrize(
    ("schedule", "triton_is_there", "mode"),
    [
        (build(torus(4, 4), "multitree"), True, "fused"),
        (build(torus(4, 4), "multitree"), False, "stepwise"),
        (build(mesh(5, 4), "multitree"), True, "stepwise"),  # 20 kernels of 20 loads
        (build(ring(65), "ring"), True, "stepwise"),
    ],
)
def test_auto_takes_kernels_where_few_are_compiled(monkeypatch, schedule, triton_is_there, mode):
    from multitree.host.tensors import executor

    monkeypatch.setattr(executor, "_has_triton", lambda: triton_is_there)
    on_cuda = SimpleNamespace(device=torch.device("cuda", 0), shape=(0, 1000))
    assert executor.TorchExecutor()._chosen(schedule, on_cuda, "auto") == mode
    if not triton_is_there:
        with pytest.raises(ValueError, match="Mode 'fused' on cuda needs Triton"):
            executor.TorchExecutor()._chosen(schedule, on_cuda, "fused")
