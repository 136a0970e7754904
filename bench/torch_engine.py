"""Checks the torch engine's bits and measures it, on CPU and CUDA.

Needs NumPy, networkx and PyTorch only: ``PYTHONPATH=src python bench/torch_engine.py [--json]``.
Exit status 1 if one bit differs from `execute`.
"""

import argparse
import importlib.util
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
    for schedule in schedules():
        differing = 0
        for dtype in ("float32", "int32"):
            for n in ODD_SIZES:
                values = make_buffers(rng, (schedule.topology.num_ranks, n), dtype)
                image = executor.execute(schedule, torch.from_numpy(values).to(device))
                bits = image.cpu().numpy().view(np.uint32)
                differing += int((bits != execute(schedule, values).view(np.uint32)).sum())
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


def main() -> int:
    """Run on every device there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-mib", type=int, default=4, help="MiB per rank on the CPU")
    parser.add_argument("--cuda-mib", type=int, default=64, help="MiB per rank on CUDA")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    devices = {"cpu": arguments.cpu_mib}
    if torch.cuda.is_available():
        devices["cuda"] = arguments.cuda_mib
    compared = [row for device in devices for row in count_differences(device)]
    rows = [row for device, size_mib in devices.items() for row in measure(device, size_mib)]
    differing = sum(row["elements_that_differ"] for row in compared)
    if arguments.json:
        versions = {"torch": torch.__version__, "seed": SEED, "elements_that_differ": differing}
        print(json.dumps({**versions, "compared": compared, "rows": rows}, indent=2))
        return int(differing > 0)
    print(f"torch {torch.__version__}, seed {SEED}")
    if "cuda" in devices:
        print(torch.cuda.get_device_name())
    else:
        print("cuda: not available here, so not measured")
    for row in rows:
        show(row)
    print("every bit equals execute" if not differing else f"{differing} elements differ")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
