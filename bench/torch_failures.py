"""Kills or stops a rank in the middle of an all-reduce, many times.

``python bench/torch_failures.py [--runs 100] [--seed 1] [--json]``. Each run starts four processes
with a store that is in none of them, and kills (SIGKILL) or stops (SIGSTOP) one of them after a
drawn time while all do all-reduces. Every other rank has to raise within the timeout and the time
that ranks have to answer, name that rank, say dead or slow, and then do an all-reduce in a group of
those that are left. Exit status 1 if one did not.
"""

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import _ranks
import torch
import torch.distributed as dist
from _bench import Row, ended, options

from multitree.host.torch.peers.failures import ANSWER_S
from multitree.torch import CollectiveError

NUM_RANKS = 4
TIMEOUT_S = 2.0
# What a loaded machine may add to the timeout and the answer.
SLACK_S = 5.0
SIZES = (100, 10_000, 1_000_000)


def all_reduces(
    rank: int, num_ranks: int, path: str, victim: int, size: int, transport: str
) -> tuple[int, bool, str, float, list[float]]:
    """All-reduces until one fails: whom it names, whether as slow, and what the rest then sums."""
    os.environ["MULTITREE_TRANSPORT"] = transport
    dist.init_process_group(
        "multitree",
        rank=rank,
        world_size=num_ranks,
        store=dist.FileStore(path, num_ranks),
        timeout=timedelta(seconds=TIMEOUT_S),
    )
    tensor = torch.zeros(size)
    dist.all_reduce(tensor)
    Path(f"{path}.{rank}").touch()
    last = time.monotonic()
    try:
        while True:
            dist.all_reduce(tensor)
            last = time.monotonic()
    except CollectiveError as error:
        seconds, record = time.monotonic() - last, error.record
    rest = [other for other in range(num_ranks) if other != victim]
    group = dist.new_group(rest, use_local_synchronization=True)
    ones = torch.ones(3)
    dist.all_reduce(ones, group=group)
    return record.rank, record.is_slow, record.state, seconds, ones.tolist()


def run(seed: int) -> Row:
    drawn = random.Random(seed)
    victim, how = drawn.randrange(NUM_RANKS), drawn.choice(["killed", "stopped"])
    size, transport = drawn.choice(SIZES), drawn.choice(["shared_memory", "gloo"])
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "store")
        ranks = _ranks.start_ranks(
            all_reduces, NUM_RANKS, path, victim, size, transport, backend=None
        )
        deadline = time.monotonic() + 60
        while not all(Path(f"{path}.{rank}").exists() for rank in range(NUM_RANKS)):
            time.sleep(0.01)
            if time.monotonic() > deadline:
                break
        time.sleep(drawn.uniform(0, 0.2))
        process = ranks.processes[victim]
        os.kill(process.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        try:
            results = ranks.wait(60, gone=(victim,))
        except _ranks.RankError as error:
            results, problems = [], [str(error)]
    limit = TIMEOUT_S + ANSWER_S + SLACK_S
    for rank, result in enumerate(results):
        if rank == victim:
            continue
        named, is_slow, state, seconds, ones = result
        if named != victim or is_slow != (how == "stopped"):
            problems.append(f"rank {rank} named rank {named} as {state}")
        if seconds > limit:
            problems.append(f"rank {rank} raised after {seconds:.1f} s")
        if ones != [NUM_RANKS - 1.0] * 3:
            problems.append(f"rank {rank} has {ones} in the new group")
    return {
        "seed": seed,
        "how": how,
        "rank": victim,
        "size": size,
        "transport": transport,
        "seconds": max((r[3] for r in results if r is not None), default=None),
        "problems": problems,
    }


def main() -> int:
    given = options(__doc__, runs=100, seed=1)
    rows = []
    for seed in range(given.seed, given.seed + given.runs):
        rows.append(run(seed))
        for problem in rows[-1]["problems"]:
            print(f"{rows[-1]}: {problem}", file=sys.stderr)
    failed = sum(bool(row["problems"]) for row in rows)
    counts = Counter(f"{row['how']}, {row['transport']}" for row in rows)
    data = {"runs": len(rows), "runs_that_failed": failed, "counts": dict(sorted(counts.items()))}
    said = f"{len(rows)} runs ({data['counts']}): {failed} not as they should be"
    return ended(given, not failed, data | {"torch": torch.__version__, "rows": rows}, said)


if __name__ == "__main__":
    sys.exit(main())
