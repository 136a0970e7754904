"""Checks the torch engine's bits and measures it, on CPU and CUDA.

Needs NumPy, networkx and PyTorch only: ``PYTHONPATH=src python bench/torch_engine.py [--json]``,
and Triton for kernels on CUDA. `--device cuda` measures the GPU alone. Exit status 1 if one bit
differs from `execute`.
"""

import argparse
import importlib.util
import itertools
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

if importlib.util.find_spec("torch") is None:
    print("PyTorch is not installed (pip install 'multitree[torch]'), so nothing is measured")
    sys.exit(0)

import torch

from multitree.host.tensors.executor import TorchExecutor
from multitree.host.tensors.operators import as_integers
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.algorithms.rings import build_ring
from multitree.topology.families.direct import mesh, torus
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule, phase_of

SEED = 20260101
ODD_SIZES = (0, 1, 3, 17, 1001, 4099, 65537)


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


def count_differences(device: str) -> list[dict[str, Any]]:
    """Compare every schedule, type and odd size with `execute`; a row for each schedule."""
    rng, executor, rows = np.random.default_rng(SEED), TorchExecutor(), []
    modes = ("stepwise", "fused") if device == "cpu" or has_triton() else ("stepwise",)
    for schedule in schedules():
        differing = 0
        for dtype, n in itertools.product(("float32", "int32"), ODD_SIZES):
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


def measure(device: str, size_mib: int) -> list[dict[str, Any]]:
    """Speeds of all-reduces against that of torch's own sum of the same tensor."""
    executor, rows = TorchExecutor(), []
    for schedule in (build_multitree(torus(4, 4)), build_ring(torus(4, 4))):
        for dtype in (torch.float32, torch.int32):
            for num_elements in (size_mib << 18, (size_mib << 18) - 1023):
                shape = (schedule.topology.num_ranks, num_elements)
                memory = torch.ones(shape, dtype=dtype, device=device)
                ours = seconds_of(partial(executor.execute, schedule, memory), device)
                plain = seconds_of(partial(plain_sum, memory), device)
                row = {
                    "device": device,
                    "algorithm": schedule.algorithm,
                    "num_ranks": shape[0],
                    "num_elements": shape[1],
                    "dtype": str(dtype),
                    "milliseconds": 1000 * ours,
                    "gbytes_per_s": memory.nbytes / ours / 1e9,
                    "ratio_to_plain_sum": ours / plain,
                }
                rows.append(row)
    return rows


def write_back(size_mib: int) -> list[dict[str, Any]]:
    """The engine on the CPU against `torch.stack(buffers).sum(0)` copied back to 16 buffers.

    Each is run in turn, three times after a first time that does not count, and the least of each
    is taken. "fresh" has its results in memory of its own, as it is without `out`.
    """
    executor, n = TorchExecutor(), size_mib << 18
    memory, out = torch.randn(16, n), torch.zeros(16, n)
    buffers = list(memory.clone())

    def stack_sum_copy() -> None:
        total = torch.stack(buffers).sum(0)
        for buffer in buffers:
            buffer.copy_(total)

    rows = []
    for schedule in (build_multitree(torus(4, 4)), build_ring(torus(4, 4))):
        run = partial(executor.execute, schedule, memory)
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
        row = {
            "algorithm": schedule.algorithm,
            "num_elements": n,
            "elements_that_differ": int(torch.ne(*map(as_integers, same)).sum()),
            **{f"{name}_milliseconds": 1000 * took for name, took in seconds.items()},
        }
        for name in ("fused", "fused_fresh", "stepwise"):
            row[f"{name}_ratio"] = seconds[name] / seconds["stack_sum_copy"]
        rows.append(row)
    return rows


def show_write_back(row: dict[str, Any]) -> None:
    """Print the times of one schedule for people."""
    print(
        f"cpu: {row['algorithm']}, 16 x {row['num_elements']} float32: stack, sum and copies back "
        f"{row['stack_sum_copy_milliseconds']:.0f} ms"
    )
    for name in ("fused", "fused_fresh", "stepwise"):
        print(f"  {name}: {row[f'{name}_milliseconds']:.0f} ms, {row[f'{name}_ratio']:.2f} x")


def measure_kernels(size_mib: int) -> list[dict[str, Any]]:
    """Bytes that kernels move per second over those that a copy of the same memory moves.

    Bits are compared with the stepwise mode's, which `count_differences` compares with `execute`.
    """
    executor, rows = TorchExecutor(), []
    for schedule in (build_multitree(torus(4, 4)), build_ring(torus(4, 4))):
        for dtype in (torch.float32, torch.bfloat16):
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
            rows.append(
                {
                    "device": torch.cuda.get_device_name(),
                    "algorithm": schedule.algorithm,
                    "dtype": str(dtype),
                    "num_elements": n,
                    "elements_that_differ": differing,
                    "copy_gbytes_per_s": 2 * memory.nbytes / copy / 1e9,
                    "kernel_gbytes_per_s": 2 * memory.nbytes / ours / 1e9,
                    "ratio_to_copy": copy / ours,
                }
            )
    return rows


def show(row: dict[str, Any]) -> None:
    """Print one speed for people."""
    print(
        f"{row['device']}: {row['algorithm']}, {row['num_ranks']} x {row['num_elements']} "
        f"{row['dtype']}: {row['milliseconds']:.2f} ms, {row['gbytes_per_s']:.1f} GB/s of all "
        f"buffers, {row['ratio_to_plain_sum']:.1f} x the time of torch's sum and copies"
    )


def plain_sum(memory: torch.Tensor) -> torch.Tensor:
    """The same result without a schedule: sum over ranks, one copy for each."""
    return memory.sum(0, dtype=memory.dtype).expand_as(memory).contiguous()


def show_kernels(row: dict[str, Any]) -> None:
    """Print what the kernels of one schedule move."""
    print(
        f"{row['device']}: {row['algorithm']}, 16 x {row['num_elements']} {row['dtype']}: kernels "
        f"{row['kernel_gbytes_per_s']:.0f} GB/s, copies {row['copy_gbytes_per_s']:.0f} GB/s, "
        f"{row['ratio_to_copy']:.2f} of a copy, {row['elements_that_differ']} elements differ"
    )


def has_triton() -> bool:
    """Whether kernels can be compiled."""
    return importlib.util.find_spec("triton") is not None


def main() -> int:
    """Run on every device there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-mib", type=int, default=4, help="MiB per rank on the CPU")
    parser.add_argument("--cuda-mib", type=int, default=64, help="MiB per rank on CUDA")
    parser.add_argument("--write-back-mib", type=int, default=64, help="of stack, sum and copies")
    parser.add_argument("--kernel-mib", type=int, default=256, help="of kernels against a copy")
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], help="alone; without it, all there are"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU here")
    sizes = {"cpu": arguments.cpu_mib, "cuda": arguments.cuda_mib}
    found_here = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    devices = {each: sizes[each] for each in found_here if arguments.device in (None, each)}
    compared = [row for device in devices for row in count_differences(device)]
    found = {
        "compared": compared,
        "rows": [row for device, size in devices.items() for row in measure(device, size)],
        "write_back": write_back(arguments.write_back_mib) if "cpu" in devices else [],
        "kernels": [],
    }
    if "cuda" in devices and has_triton():
        found["kernels"] = measure_kernels(arguments.kernel_mib)
    checked = (*compared, *found["write_back"], *found["kernels"])
    differing = sum(row["elements_that_differ"] for row in checked)
    if arguments.json:
        versions = {"torch": torch.__version__, "seed": SEED, "elements_that_differ": differing}
        print(json.dumps({**versions, **found}, indent=2))
    else:
        show_all(found, differing)
    return int(differing > 0)


def show_all(found: dict[str, list[dict[str, Any]]], differing: int) -> None:
    """Print everything for people."""
    print(f"torch {torch.__version__}, seed {SEED}")
    if torch.cuda.is_available():
        print(torch.cuda.get_device_name())
    else:
        print("cuda: not available here, so neither it nor its kernels are measured")
    for row in found["rows"]:
        show(row)
    for row in found["write_back"]:
        show_write_back(row)
    for row in found["kernels"]:
        show_kernels(row)
    print("every bit equals execute" if not differing else f"{differing} elements differ")


if __name__ == "__main__":
    sys.exit(main())
