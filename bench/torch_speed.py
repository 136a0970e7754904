"""Times all-reduces of the PyTorch backend against gloo's, both in one run.

``python bench/torch_speed.py [--ranks 4 8] [--sizes 1KiB 64KiB 1MiB 16MiB] [--json]``. For every
number of ranks, topology and transport there are groups of the same processes: ours, ours with
invariant sums, and gloo's. They take turns, a block of each at a time. A ratio is the median over
turns of our seconds by gloo's, or of invariant sums' by those of the default. What processes of one
machine take depends on its cores, so that only ratios are compared.
"""

import os
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import _ranks
import torch
import torch.distributed as dist
from _bench import Row, ended, options, reported

from multitree.host.sizes import parse_size
from multitree.torch import Options

TOPOLOGIES = {
    4: ("full:4", "torus:2x2", "mesh:4", "fat_tree:2x2"),
    8: ("full:8", "torus:2x4", "hypercube:3", "fat_tree:2x4"),
}
TRANSPORTS = ("shared_memory", "gloo")
TURNS = 9
NAMES = ("", "invariant_", "gloo_")
COLUMNS = ("ranks", "topology", "transport", "size_bytes", "ratio_to_gloo", "milliseconds")
COLUMNS += ("gloo_milliseconds", "invariant_ratio_to_default")


def measure(
    rank: int, num_ranks: int, topologies: list[str], transport: str, sizes: list[int]
) -> list[Row]:
    """Ratios at one rank; those of rank 0 are taken."""
    rows = []
    gloo = dist.new_group(backend="gloo")
    for spec in topologies:
        options = Options(topology=spec, transport=transport)
        ours = dist.new_group(backend="multitree", pg_options=options)
        options = Options(topology=spec, transport=transport, reproducible="invariant")
        invariant = dist.new_group(backend="multitree", pg_options=options)
        groups = [ours, invariant, gloo]
        for size in sizes:
            tensor = torch.ones(size // 4)
            repeats = max(1, min(200, (4 << 20) // size))
            taken = []
            for turn in range(TURNS + 1):
                # Who goes first changes, so that none always follows another's cache.
                order = [groups[(turn + place) % 3] for place in range(3)]
                seconds = {group: block(tensor, group, repeats, gloo) for group in order}
                if turn:
                    taken.append([seconds[group] for group in groups])
            rows.append(
                {
                    "ranks": num_ranks,
                    "topology": spec,
                    "transport": transport,
                    "size_bytes": size,
                    "ratio_to_gloo": statistics.median(ours / gloo for ours, _, gloo in taken),
                    "invariant_ratio_to_default": statistics.median(b / a for a, b, _ in taken),
                    **{
                        f"{name}milliseconds": 1000 * statistics.median(column)
                        for name, column in zip(NAMES, zip(*taken, strict=True), strict=True)
                    },
                }
            )
        dist.destroy_process_group(ours)
        dist.destroy_process_group(invariant)
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
    given = options(
        __doc__,
        ranks={"type": int, "nargs": "+", "default": [4, 8], "choices": list(TOPOLOGIES)},
        sizes={"nargs": "+", "default": ["1KiB", "64KiB", "1MiB", "16MiB"]},
        transports={"nargs": "+", "default": list(TRANSPORTS), "choices": TRANSPORTS},
    )
    sizes = [parse_size(size) for size in given.sizes]

    def measured() -> Iterator[Row]:
        for ranks, transport in product(given.ranks, given.transports):
            case = list(TOPOLOGIES[ranks]), transport, sizes
            yield from _ranks.run_ranks(measure, ranks, *case, timeout_s=600, backend="gloo")[0]

    rows = reported(given, measured(), *COLUMNS)
    data = {"torch": torch.__version__, "cores": os.cpu_count(), "rows": rows}
    data["largest_ratio_from_1_mib"] = _largest(rows, given.transports, COLUMNS[4])
    data["largest_invariant_ratio_from_1_mib"] = _largest(rows, given.transports, COLUMNS[-1])
    said = f"largest ratio from 1 MiB: {data['largest_ratio_from_1_mib']}, of invariant sums: "
    return ended(given, True, data, f"{said}{data['largest_invariant_ratio_from_1_mib']}")


def _largest(rows: list[Row], transports: list[str], key: str) -> dict[str, float | None]:
    big = [row for row in rows if row["size_bytes"] >= 1 << 20]
    return {
        transport: max((row[key] for row in big if row["transport"] == transport), default=None)
        for transport in transports
    }


if __name__ == "__main__":
    sys.exit(main())
