"""Times all-reduces of the PyTorch backend against gloo's, both in one run.

``python bench/torch_speed.py [--ranks 4 8] [--sizes 1KiB 64KiB 1MiB 16MiB] [--json]``. For every
number of ranks, topology and transport both backends have a group of the same processes; they take
turns, a block of each at a time. A ratio is the median over turns of our seconds by gloo's. What
processes of one machine take depends on its cores, so that only ratios are compared.
"""

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

import _ranks
import torch
import torch.distributed as dist

from multitree.host.sizes import format_size, parse_size
from multitree.torch import Options

TOPOLOGIES = {
    4: ("full:4", "torus:2x2", "mesh:4", "fat_tree:2x2"),
    8: ("full:8", "torus:2x4", "hypercube:3", "fat_tree:2x4"),
}
TRANSPORTS = ("shared_memory", "gloo")
TURNS = 9


def measure(
    rank: int, num_ranks: int, topologies: list[str], transport: str, sizes: list[int]
) -> list[dict[str, Any]]:
    """Ratios at one rank; those of rank 0 are taken."""
    rows = []
    gloo = dist.new_group(backend="gloo")
    for spec in topologies:
        options = Options(topology=spec, transport=transport)
        ours = dist.new_group(backend="multitree", pg_options=options)
        for size in sizes:
            tensor = torch.ones(size // 4)
            repeats = max(1, min(200, (4 << 20) // size))
            pairs = []
            for turn in range(TURNS + 1):
                # Who goes first changes, so that neither always follows the other's cache.
                order = (ours, gloo) if turn % 2 else (gloo, ours)
                seconds = {group: block(tensor, group, repeats, gloo) for group in order}
                if turn:
                    pairs.append((seconds[ours], seconds[gloo]))
            rows.append(
                {
                    "ranks": num_ranks,
                    "topology": spec,
                    "transport": transport,
                    "size_bytes": size,
                    "ratio_to_gloo": statistics.median(a / b for a, b in pairs),
                    "milliseconds": 1000 * statistics.median(a for a, _ in pairs),
                    "gloo_milliseconds": 1000 * statistics.median(b for _, b in pairs),
                }
            )
        dist.destroy_process_group(ours)
    return rows


def block(tensor: torch.Tensor, group: Any, repeats: int, gloo: Any) -> float:
    """Seconds of an all-reduce, mean of a block; all ranks begin together."""
    tensor.zero_()  # sums of ones would overflow after many repeats
    dist.barrier(group=gloo)
    begun = time.perf_counter()
    for _ in range(repeats):
        dist.all_reduce(tensor, group=group)
    return (time.perf_counter() - begun) / repeats


def main() -> int:
    """Print a row for each case, and the largest ratio from 1 MiB on of each transport."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8], choices=list(TOPOLOGIES))
    parser.add_argument("--sizes", nargs="+", default=["1KiB", "64KiB", "1MiB", "16MiB"])
    parser.add_argument("--transports", nargs="+", default=list(TRANSPORTS), choices=TRANSPORTS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sizes = [parse_size(size) for size in arguments.sizes]
    rows = []
    for num_ranks in arguments.ranks:
        for transport in arguments.transports:
            topologies = list(TOPOLOGIES[num_ranks])
            first, *_ = _ranks.run_ranks(
                measure, num_ranks, topologies, transport, sizes, timeout_s=600, backend="gloo"
            )
            rows += first
            for row in first if not arguments.json else []:
                print(
                    f"{row['ranks']} ranks, {row['topology']}, {row['transport']}, "
                    f"{format_size(row['size_bytes'])}: {row['ratio_to_gloo']:.2f} x gloo "
                    f"({row['milliseconds']:.2f} against {row['gloo_milliseconds']:.2f} ms)",
                    flush=True,
                )
    largest = {
        transport: max((r["ratio_to_gloo"] for r in rows if _counts(r, transport)), default=None)
        for transport in arguments.transports
    }
    if arguments.json:
        print(
            json.dumps(
                {
                    "torch": torch.__version__,
                    "cores": os.cpu_count(),
                    "rows": rows,
                    "largest_ratio_from_1_mib": largest,
                },
                indent=2,
            )
        )
    else:
        print(f"largest ratio from 1 MiB: {largest}")
    return 0


def _counts(row: dict[str, Any], transport: str) -> bool:
    return row["transport"] == transport and row["size_bytes"] >= 1 << 20


if __name__ == "__main__":
    sys.exit(main())
