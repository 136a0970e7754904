"""What a group costs beside gloo's, and whether all that it keeps stays flat.

``python bench/torch_groups.py [--ranks 2] [--groups 20] [--calls 10000] [--json]``. Processes make
groups of both backends in turn: milliseconds and CPU milliseconds of a `new_group`, and descriptors
that it holds. Then they do all-to-alls of 1 MiB, a block of each backend at a time. At last new
processes, whose first group's CPU seconds are taken, do so many calls of every kind: what has grown
since the first tenth of them, which is the warm-up (groups keep reports of 1000 collectives). Exit
status 1 if a descriptor or a thread has come, or more than 256 KiB.
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
NOISE_BYTES = 1 << 18
# Ranks that run ahead fill buffers, which are no growth.
CALLS_BETWEEN_BARRIERS = 100


def join(rank: int, num_ranks: int, port: int, backend: str) -> float:
    """The CPU seconds of making the default group; its store, in no rank, is not polled."""
    sys.dont_write_bytecode = False  # or each process compiles what the first group imports
    torch.set_num_threads(1)
    store = dist.PrefixStore(backend, dist.TCPStore("127.0.0.1", port))
    begun_s = time.process_time()
    dist.init_process_group(backend, rank=rank, world_size=num_ranks, store=store)
    return time.process_time() - begun_s


def costs(rank: int, num_ranks: int, port: int, num_groups: int) -> list[Row]:
    """Medians over groups, whose makers take turns."""
    join(rank, num_ranks, port, "gloo")
    taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in BACKENDS}
    groups: dict[str, Any] = {name: dist.new_group(backend=name) for name in BACKENDS}
    for _ in range(num_groups):
        for name in BACKENDS:
            dist.barrier()
            held, cpu_s, begun_s = _descriptors(), time.process_time(), time.perf_counter()
            groups[name] = dist.new_group(backend=name)
            seconds, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
            taken[name].append((seconds, cpu_s, _descriptors() - held))
    length = (1 << 18) // num_ranks * num_ranks
    source, target = torch.ones(length), torch.empty(length)
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
    whole = torch.ones(64 // num_ranks * num_ranks)

    def exchange(tag: int) -> None:
        sent = dist.isend(short, (rank + 1) % num_ranks, tag=tag)
        dist.recv(parts[0], (rank - 1) % num_ranks, tag=tag)
        sent.wait()

    return {
        "all_reduce": lambda number: dist.all_reduce(short),
        "broadcast": lambda number: dist.broadcast(short, 0),
        "reduce": lambda number: dist.reduce(short, 0),
        "all_gather": lambda number: dist.all_gather(parts, short),
        "reduce_scatter": lambda number: dist.reduce_scatter(short, parts),
        "all_to_all": lambda number: dist.all_to_all_single(torch.empty_like(whole), whole),
        "gather": lambda number: dist.gather(short, parts if rank == 0 else None),
        "scatter": lambda number: dist.scatter(short, parts if rank == 0 else None),
        "barrier": lambda number: dist.barrier(),
        "send_new_tag": exchange,
        "future": lambda number: dist.all_reduce(short, async_op=True).get_future().wait(),
    }


def growth(rank: int, num_ranks: int, port: int, num_calls: int) -> tuple[float, list[Row]]:
    """CPU seconds of the first group, and what has grown behind the warm-up."""
    first_cpu_s, rows = join(rank, num_ranks, port, "multitree"), []
    for kind, call in kinds(rank, num_ranks).items():
        before = (0, 0, 0)
        for number in range(num_calls):
            if number % CALLS_BETWEEN_BARRIERS == 0:
                dist.barrier()
            if number == num_calls // 10:
                before = _held()
            call(number)
        dist.barrier()
        grown = [now - then for now, then in zip(_held(), before, strict=True)]
        names = ("memory_bytes", "descriptors", "threads")
        rows.append({"rank": rank, "kind": kind, **dict(zip(names, grown, strict=True))})
    return first_cpu_s, rows


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _held() -> tuple[int, int, int]:
    """Resident bytes, descriptors and threads of this process."""
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize()
    return resident, _descriptors(), threading.active_count()


def main() -> int:
    given = options(__doc__, ranks=2, groups=20, calls=10_000)
    # Else the first group would find imported what it imports.
    _ranks.CONTEXT.set_forkserver_preload([])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    how: Row = {"backend": None, "timeout_s": 3600}
    made = _ranks.run_ranks(costs, given.ranks, store.port, given.groups, **how)[0]
    found = _ranks.run_ranks(growth, given.ranks, store.port, given.calls, **how)
    first, grown = [cpu_s for cpu_s, _ in found], [row for _, rows in found for row in rows]
    ours, gloos = made
    name = "all_to_all_milliseconds"
    ratio = ours[name] / gloos[name]
    bad = [
        f"{row['kind']} at rank {row['rank']}"
        for row in grown
        if row["descriptors"] > 0 or row["threads"] > 0 or row["memory_bytes"] > NOISE_BYTES
    ]
    data = {"groups": made, "all_to_all_ratio_to_gloo": ratio, "growth": grown, "not_flat": bad}
    data |= {"torch": torch.__version__, "first_group_cpu_seconds": first}
    said = [str(row) for row in (*made, *grown)]
    said.append(f"first group of a process: {', '.join(f'{s:.3f}' for s in first)} CPU s by rank")
    said.append(f"all-to-all of 1 MiB: {ratio:.2f} of gloo's time; not flat: {bad or 'none'}")
    return ended(given, not bad, data, *said)


if __name__ == "__main__":
    sys.exit(main())
