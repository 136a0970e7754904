"""What a group costs beside gloo's, and whether all that it keeps stays flat.

``python bench/torch_groups.py [--groups 20] [--calls 10000] [--json]``. Two processes make groups
of both backends in turn: milliseconds and CPU milliseconds of a `new_group`, and descriptors that
it holds. Then they do all-to-alls of 1 MiB, a block of each backend at a time. At last the backend
does so many calls of every kind: what has grown since the first tenth of them, which is the
warm-up (groups keep reports of 1000 collectives). Exit status 1 if a descriptor or a thread has
come, or more than 64 KiB.
"""

import gc
import os
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import _ranks
import torch
import torch.distributed as dist
from _bench import Row, ended, options

BACKENDS = ("multitree", "gloo")
TURNS, REPEATS = 15, 5
# Of the allocator: pages that a process keeps for later.
NOISE_BYTES = 1 << 16


def costs(rank: int, num_ranks: int, num_groups: int) -> list[Row]:
    """Medians over groups, whose makers take turns."""
    torch.set_num_threads(1)
    taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in BACKENDS}
    groups: dict[str, Any] = {name: dist.new_group(backend=name) for name in BACKENDS}
    for _ in range(num_groups):
        for name in BACKENDS:
            dist.barrier()
            held, cpu_s, begun_s = _descriptors(), time.process_time(), time.perf_counter()
            groups[name] = dist.new_group(backend=name)
            seconds, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
            taken[name].append((seconds, cpu_s, _descriptors() - held))
    source, target = torch.ones(1 << 18), torch.empty(1 << 18)
    moved: dict[str, list[float]] = {name: [] for name in BACKENDS}
    for turn in range(TURNS):
        for name in BACKENDS[:: 1 if turn % 2 else -1]:
            dist.barrier()
            begun_s = time.perf_counter()
            for _ in range(REPEATS):
                dist.all_to_all_single(target, source, group=groups[name])
            moved[name].append((time.perf_counter() - begun_s) / REPEATS)
    return [
        {
            "backend": name,
            "new_group_milliseconds": 1e3 * statistics.median(row[0] for row in taken[name]),
            "new_group_cpu_milliseconds": 1e3 * statistics.median(row[1] for row in taken[name]),
            "descriptors": statistics.median(row[2] for row in taken[name]),
            "all_to_all_milliseconds": 1e3 * statistics.median(moved[name]),
        }
        for name in BACKENDS
    ]


def kinds(rank: int, num_ranks: int) -> dict[str, Callable[[int], Any]]:
    """One call of every kind, by its number."""
    short, parts = torch.ones(64), [torch.ones(64) for _ in range(num_ranks)]
    other = 1 - rank

    def exchange(tag: int) -> None:
        sent = dist.isend(short, other, tag=tag)
        dist.recv(parts[0], other, tag=tag)
        sent.wait()

    return {
        "all_reduce": lambda number: dist.all_reduce(short),
        "broadcast": lambda number: dist.broadcast(short, 0),
        "reduce": lambda number: dist.reduce(short, 0),
        "all_gather": lambda number: dist.all_gather(parts, short),
        "reduce_scatter": lambda number: dist.reduce_scatter(short, parts),
        "all_to_all": lambda number: dist.all_to_all_single(torch.empty(64), short),
        "gather": lambda number: dist.gather(short, parts if rank == 0 else None),
        "scatter": lambda number: dist.scatter(short, parts if rank == 0 else None),
        "barrier": lambda number: dist.barrier(),
        "send_new_tag": exchange,
        "future": lambda number: dist.all_reduce(short, async_op=True).get_future().wait(),
    }


def growth(rank: int, num_ranks: int, num_calls: int) -> list[Row]:
    """What has grown behind the warm-up."""
    torch.set_num_threads(1)
    rows = []
    for kind, call in kinds(rank, num_ranks).items():
        before = (0, 0, 0)
        for number in range(num_calls):
            if number == num_calls // 10:
                before = _held()
            call(number)
        grown = [now - then for now, then in zip(_held(), before, strict=True)]
        names = ("memory_bytes", "descriptors", "threads")
        rows.append({"kind": kind, **dict(zip(names, grown, strict=True))})
    return rows


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _held() -> tuple[int, int, int]:
    """Resident bytes, descriptors and threads of this process."""
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize()
    return resident, _descriptors(), threading.active_count()


def main() -> int:
    given = options(__doc__, groups=20, calls=10_000)
    made = _ranks.run_ranks(costs, 2, given.groups, backend="gloo", timeout_s=600)[0]
    grown = _ranks.run_ranks(growth, 2, given.calls, timeout_s=3600)[0]
    ours, gloos = made
    name = "all_to_all_milliseconds"
    ratio = ours[name] / gloos[name]
    bad = [
        row["kind"]
        for row in grown
        if row["descriptors"] > 0 or row["threads"] > 0 or row["memory_bytes"] > NOISE_BYTES
    ]
    data = {"groups": made, "all_to_all_ratio_to_gloo": ratio, "growth": grown, "not_flat": bad}
    said = [str(row) for row in (*made, *grown)]
    said.append(f"all-to-all of 1 MiB: {ratio:.2f} of gloo's time; not flat: {bad or 'none'}")
    return ended(given, not bad, data | {"torch": torch.__version__}, *said)


if __name__ == "__main__":
    sys.exit(main())
