"""Checks the torch engine's bits and measures it, on CPU and CUDA.

Needs NumPy, networkx and PyTorch only: ``PYTHONPATH=src python bench/torch_engine.py [--json]``,
and Triton for kernels on CUDA. `--device cuda` measures the GPU alone. Exit status 1 if one bit
differs from `execute`.
"""

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import networkx as nx
import numpy as np
from _bench import Row, ended, options, reported

if importlib.util.find_spec("torch") is None:
    print("PyTorch is not installed (pip install 'multitree[torch]'), so nothing is measured")
    sys.exit(0)

import torch

from multitree import Schedule, Topology, execute, mesh, torus
from multitree.host.tensors.executor import TorchExecutor
from multitree.host.tensors.operators import as_integers
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.algorithms.rings import build_ring
from multitree.topology.schedules.schedule import phase_of

SEED = 20260101
ODD_SIZES = (0, 1, 3, 17, 1001, 4099, 65537)
ROW = ("device", "algorithm", "dtype", "num_ranks", "num_elements", "milliseconds")
ROW += ("gbytes_per_s", "ratio_to_plain_sum")
WRITE_BACK = ("algorithm", "num_elements", "stack_sum_copy_milliseconds", "fused_ratio")
WRITE_BACK += ("fused_fresh_ratio", "stepwise_ratio")
KERNELS = ("device", "algorithm", "dtype", "num_elements", "elements_that_differ")
KERNELS += ("kernel_gbytes_per_s", "copy_gbytes_per_s", "ratio_to_copy")


def schedules() -> list[Schedule]:
    """MultiTree on the three topologies, their phases, a ring, and trees that share a root."""
    graph = nx.connected_watts_strogatz_graph(13, 4, 0.5, seed=SEED)
    found = []
    for topology in (torus(4, 4), mesh(5, 3), Topology.from_networkx(graph, name="random graph")):
        whole = build_multitree(topology)
        shared = build_multitree(topology, roots=[1] * 3)
        found += [whole, phase_of(whole, "reduce_scatter"), phase_of(whole, "all_gather")]
        found += [phase_of(shared, "broadcast"), phase_of(shared, "reduce")]
    return [*found, build_ring(torus(4, 4))]


def make_buffers(rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Values whose sums depend on the order, with infinities and odd NaNs among them."""
    if dtype == "int32":
        return rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    scale = 2.0 ** rng.integers(-20, 21, shape)
    values = (rng.standard_normal(shape) * scale).astype(np.float32)
    if shape[1] > 16:
        values[0, 3], values[1, 3] = np.inf, -np.inf
        values.view(np.uint32)[1, 7] = 0xFFC12345
        values.view(np.uint32)[:, 11] = np.arange(shape[0])  # subnormals
    return values


def count_differences(device: str) -> list[Row]:
    """Compare every schedule, type and odd size with `execute`; a row for each schedule."""
    rng, executor, rows = np.random.default_rng(SEED), TorchExecutor(), []
    modes = ("stepwise", "fused") if device == "cpu" or has_triton() else ("stepwise",)
    for schedule in schedules():
        differing = 0
        for dtype, n in product(("float32", "int32"), ODD_SIZES):
            values = make_buffers(rng, (schedule.topology.num_ranks, n), dtype)
            right = execute(schedule, values).view(np.uint32)
            memory = torch.from_numpy(values).to(device)
            for mode in modes:
                image = executor.execute(schedule, memory, mode=mode)
                differing += int((image.cpu().numpy().view(np.uint32) != right).sum())
        name = f"{schedule.topology.name}, {schedule.algorithm}, {schedule.collective}"
        rows.append({"device": device, "schedule": name, "elements_that_differ": differing})
        print(f"{device}: {name}: {differing} elements differ", file=sys.stderr)
    return rows


def seconds_of(run: Callable[[], object], device: str, repeats: int = 10) -> float:
    """Least wall seconds of some runs, the device idle before and after each."""
    least = float("inf")
    for _ in range(repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        least = min(least, time.perf_counter() - start)
    return least


def measure(device: str, size_mib: int) -> Iterator[Row]:
    """Speeds of all-reduces against that of torch's own sum of the same tensor."""
    lengths = (size_mib << 18), (size_mib << 18) - 1023
    for schedule, dtype, n in product(timed(), (torch.float32, torch.int32), lengths):
        memory = torch.ones((schedule.topology.num_ranks, n), dtype=dtype, device=device)
        ours = seconds_of(partial(TorchExecutor().execute, schedule, memory), device)
        plain = seconds_of(partial(plain_sum, memory), device)
        yield {
            "device": device,
            "algorithm": schedule.algorithm,
            "num_ranks": schedule.topology.num_ranks,
            "num_elements": n,
            "dtype": str(dtype),
            "milliseconds": 1000 * ours,
            "gbytes_per_s": memory.nbytes / ours / 1e9,
            "ratio_to_plain_sum": ours / plain,
        }


def timed() -> tuple[Schedule, Schedule]:
    return build_multitree(torus(4, 4)), build_ring(torus(4, 4))


def write_back(size_mib: int) -> Iterator[Row]:
    """The engine on the CPU against `torch.stack(buffers).sum(0)` copied back to 16 buffers.

    Each is run in turn, three times after a first time that does not count, and the least of each
    is taken. "fresh" has its results in memory of its own, as it is without `out`.
    """
    n = size_mib << 18
    memory, out = torch.randn(16, n), torch.zeros(16, n)
    buffers = list(memory.clone())

    def stack_sum_copy() -> None:
        total = torch.stack(buffers).sum(0)
        for buffer in buffers:
            buffer.copy_(total)

    for schedule in timed():
        run = partial(TorchExecutor().execute, schedule, memory)
        runs = {
            "stack_sum_copy": stack_sum_copy,
            "fused": partial(run, mode="fused", out=out),
            "fused_fresh": partial(run, mode="fused"),
            "stepwise": partial(run, mode="stepwise"),
        }
        seconds = dict.fromkeys(runs, float("inf"))
        for turn in range(4):
            for name, call in runs.items():
                took = seconds_of(call, "cpu", 1)
                seconds[name] = min(seconds[name], took) if turn else seconds[name]
        same = run(mode="fused"), run(mode="stepwise")
        row: Row = {"algorithm": schedule.algorithm, "num_elements": n}
        row["elements_that_differ"] = int(torch.ne(*map(as_integers, same)).sum())
        row |= {f"{name}_milliseconds": 1000 * took for name, took in seconds.items()}
        base = seconds.pop("stack_sum_copy")
        yield row | {f"{name}_ratio": took / base for name, took in seconds.items()}


def measure_kernels(size_mib: int) -> Iterator[Row]:
    """Bytes that kernels move per second over those that a copy of the same memory moves.

    Bits are compared with the stepwise mode's, which `count_differences` compares with `execute`.
    """
    executor = TorchExecutor()
    for schedule, dtype in product(timed(), (torch.float32, torch.bfloat16)):
        n = (size_mib << 20) // dtype.itemsize
        memory = torch.empty(16, n, dtype=dtype, device="cuda")
        for rank, buffer in enumerate(memory):
            buffer.copy_(torch.randn(n, device="cuda"))
            as_integers(buffer)[::4099] = rank  # subnormals
        memory[0, 3::4099], memory[1, 3::4099] = float("inf"), float("-inf")
        out = torch.empty_like(memory)
        run = partial(executor.execute, schedule, memory, mode="fused", out=out)
        copy = min(seconds_of(partial(out.copy_, memory), "cuda") for _ in range(3))
        ours = min(seconds_of(run, "cuda") for _ in range(3))
        run()
        steps = executor.execute(schedule, memory, mode="stepwise")
        differing = int(torch.ne(as_integers(out), as_integers(steps)).sum())
        del steps
        yield {
            "device": torch.cuda.get_device_name(),
            "algorithm": schedule.algorithm,
            "dtype": str(dtype),
            "num_elements": n,
            "elements_that_differ": differing,
            "copy_gbytes_per_s": 2 * memory.nbytes / copy / 1e9,
            "kernel_gbytes_per_s": 2 * memory.nbytes / ours / 1e9,
            "ratio_to_copy": copy / ours,
        }


def plain_sum(memory: torch.Tensor) -> torch.Tensor:
    return memory.sum(0, dtype=memory.dtype).expand_as(memory).contiguous()


def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def main() -> int:
    given = options(
        __doc__,
        cpu_mib={"type": int, "default": 4, "help": "MiB per rank on the CPU"},
        cuda_mib={"type": int, "default": 64, "help": "MiB per rank on CUDA"},
        write_back_mib={"type": int, "default": 64, "help": "of stack, sum and copies"},
        kernel_mib={"type": int, "default": 256, "help": "of kernels against a copy"},
        device={"choices": ["cpu", "cuda"], "help": "alone; without it, all there are"},
    )
    has_cuda = torch.cuda.is_available()
    if given.device == "cuda" and not has_cuda:
        print("--device cuda: PyTorch finds no GPU here", file=sys.stderr)
        return 2
    sizes = {"cpu": given.cpu_mib} | ({"cuda": given.cuda_mib} if has_cuda else {})
    devices = {each: sizes[each] for each in sizes if given.device in (None, each)}
    compared = [row for device in devices for row in count_differences(device)]
    rows = (row for device, size in devices.items() for row in measure(device, size))
    found = {"compared": compared, "rows": reported(given, rows, *ROW)}
    backs = write_back(given.write_back_mib) if "cpu" in devices else ()
    found["write_back"] = reported(given, backs, *WRITE_BACK)
    kernels = measure_kernels(given.kernel_mib) if "cuda" in devices and has_triton() else ()
    found["kernels"] = reported(given, kernels, *KERNELS)
    checked = (*compared, *found["write_back"], *found["kernels"])
    differing = sum(row["elements_that_differ"] for row in checked)
    data = {"torch": torch.__version__, "seed": SEED, "elements_that_differ": differing, **found}
    said = "every bit equals execute" if not differing else f"{differing} elements differ"
    return ended(given, not differing, data, f"torch {torch.__version__}, seed {SEED}: {said}")


if __name__ == "__main__":
    sys.exit(main())
