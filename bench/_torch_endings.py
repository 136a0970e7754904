"""Runs of `torch_failures.py`: ranks are lost or leave early, messages wait."""

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import _ranks
import torch
import torch.distributed as dist
from _bench import Row

from multitree.host.torch.peers.failures import ANSWER_S
from multitree.torch import CollectiveError, group_of

__all__ = ["callbacks", "leaving", "lost", "untaken"]

NUM_RANKS = 4
TIMEOUT_S = 2.0
# What a loaded machine may add to the timeout and the answer.
SLACK_S = 5.0
SIZES = (1, 1000, 100_000, 1_000_000)
TRANSPORTS = ("shared_memory", "gloo")


def join(rank: int, num_ranks: int, path: str, transport: str, timeout_s: float) -> None:
    """The default group, with a store that is in no rank."""
    os.environ["MULTITREE_TRANSPORT"] = transport
    store = dist.FileStore(path, num_ranks)
    place = {"rank": rank, "world_size": num_ranks, "store": store}
    dist.init_process_group("multitree", **place, timeout=timedelta(seconds=timeout_s))


def all_reduces(
    rank: int, num_ranks: int, path: str, transport: str, victim: int, size: int, is_nested: bool
) -> Any:
    """All-reduces until one fails: whom the group names, and what the rest sums in a new one."""
    join(rank, num_ranks, path, transport, TIMEOUT_S)

    def again(done: Any) -> float:
        inner = torch.ones(size)
        dist.all_reduce(inner)
        return float((inner + done.value()[0]).sum())

    # A Future of PyTorch keeps only the text.
    expected = RuntimeError if is_nested else CollectiveError
    total = 2 * num_ranks * size
    while total == 2 * num_ranks * size:
        begun = time.monotonic()
        try:
            work = dist.all_reduce(torch.ones(size), async_op=True)
            if is_nested:
                total = work.get_future().then(again).wait()
            else:
                work.wait()
        except expected as error:
            seconds, text, failure = time.monotonic() - begun, str(error), group_of().failure
            break
        Path(f"{path}.{rank}").touch()
    else:
        return None, 0.0, f"{total} summed", None
    rest = [other for other in range(num_ranks) if other != victim]
    ones = torch.ones(3)
    dist.all_reduce(ones, group=dist.new_group(rest, use_local_synchronization=True))
    named = None if failure is None else (failure.rank, failure.is_slow)
    return named, seconds, text, ones.tolist()


def lost(seed: int, turn: int, *, is_nested: bool = False) -> Row:
    """A rank is lost while all do all-reduces, in callbacks of which others may run."""
    drawn = random.Random(seed)
    victim, how = drawn.randrange(NUM_RANKS), ("killed", "stopped")[turn % 2]
    size, transport = drawn.choice(SIZES), drawn.choice(TRANSPORTS)
    problems: list[str] = []
    results: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "store")
        given = (path, transport, victim, size, is_nested)
        ranks = _ranks.start_ranks(all_reduces, NUM_RANKS, *given, backend=None)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not all(
            Path(f"{path}.{rank}").exists() for rank in range(NUM_RANKS)
        ):
            time.sleep(0.01)
        time.sleep(drawn.uniform(0, 0.2))
        os.kill(ranks.processes[victim].pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        try:
            results = ranks.wait(60, gone=(victim,))
        except _ranks.RankError as error:
            problems.append(str(error))
    for rank, result in enumerate(results):
        if rank != victim:
            named, seconds, text, ones = result
            if named != (victim, how == "stopped"):
                problems.append(f"rank {rank} named {named}: {text}")
            if seconds > TIMEOUT_S + ANSWER_S + SLACK_S:
                problems.append(f"rank {rank} raised after {seconds:.1f} s")
            if ones != [NUM_RANKS - 1.0] * 3:
                problems.append(f"rank {rank} has {ones} in the new group")
    row = _row("callbacks" if is_nested else "lost", seed, how, transport, problems)
    return row | {"rank": victim, "size": size}


def callbacks(seed: int, turn: int) -> Row:
    """A rank is lost while callbacks of all wait for collectives of their own group."""
    return lost(seed, turn, is_nested=True)


def leave(rank: int, num_ranks: int, path: str, transport: str, early: int, seed: int) -> Any:
    """The same collectives and messages at all ranks; one destroys its group at once."""
    join(rank, num_ranks, path, transport, 60)
    drawn, mine = random.Random(seed), random.Random(seed * 100 + rank)
    sizes = [drawn.choice(SIZES) for _ in range(drawn.randrange(1, 5))]
    delay_s = drawn.uniform(0.1, 0.5)
    sums = [torch.full((size,), rank + 1.0) for size in sizes]
    others = [other for other in range(num_ranks) if other != early]
    if rank == early:
        work = [dist.all_reduce(each, async_op=True) for each in sums]
        for peer in others:
            for tag, size in enumerate(sizes):
                dist.isend(torch.full((size,), peer + 0.5), peer, tag=tag)
        dist.destroy_process_group()
        unfinished = sum(not each.is_success() for each in work)
        return unfinished, {float(each.mean()) for each in sums}, set(), ""
    time.sleep(delay_s + mine.uniform(0, 0.2))
    for each in sums:
        dist.all_reduce(each)
    received = [torch.zeros(size) for size in sizes]
    for tag, each in enumerate(received):
        dist.recv(each, early, tag=tag)
    try:
        dist.recv(torch.zeros(1), early, tag=99)
        said = "a message that was never sent"
    except CollectiveError as error:
        said = error.record.state
    return 0, {float(each.mean()) for each in sums}, {float(each.mean()) for each in received}, said


def leaving(seed: int, turn: int) -> Row:
    """A rank destroys its group before the others have come: what it has begun is finished."""
    drawn = random.Random(seed)
    early, transport = drawn.randrange(NUM_RANKS), TRANSPORTS[turn % 2]

    def judged(rank: int, result: Any) -> bool:
        unfinished, sums, received, said = result
        right = {NUM_RANKS * (NUM_RANKS + 1) / 2}
        messages = set() if rank == early else {rank + 0.5}
        state = "" if rank == early else "left"
        return (unfinished, sums, received, said) == (0, right, messages, state)

    problems = _judged(leave, NUM_RANKS, judged, transport, early, seed)
    return _row("leaving", seed, "destroys early", transport, problems)


def take_late(rank: int, num_ranks: int, path: str, transport: str, size: int) -> Any:
    """A long send that is taken too late fails alone; what is sent then arrives."""
    join(rank, num_ranks, path, transport, 60)
    tensor = torch.full((size,), 1.0)
    dist.barrier()
    if rank == 0:
        group_of().set_timeout(timedelta(seconds=0.3))
        begun, said = time.monotonic(), "sent"
        try:
            dist.send(tensor, 1)
        except RuntimeError as error:
            said = "timed out" if "timed out" in str(error) else str(error)
        seconds = time.monotonic() - begun
        group_of().set_timeout(timedelta(seconds=60))
        tensor.fill_(2.0)
        dist.barrier()
        dist.send(tensor, 1)
        return said, seconds
    dist.barrier()
    taken = []
    while 2.0 not in taken:
        dist.recv(tensor, 0)
        taken += tensor.unique().tolist()
    return taken, 0.0


def untaken(seed: int, turn: int) -> Row:
    """Nothing takes a message in time: a short one is on its way, a long one is withdrawn."""
    drawn = random.Random(seed)
    size, transport = drawn.choice((10, 8192, 8193, 500_000)), TRANSPORTS[turn % 2]
    is_short = size * 4 <= 1 << 15

    def judged(rank: int, result: Any) -> bool:
        said, seconds = result
        if rank == 0:
            return said == ("sent" if is_short else "timed out") and seconds < SLACK_S
        return bool(said == ([1.0, 2.0] if is_short else [2.0]))

    problems = _judged(take_late, 2, judged, transport, size)
    return _row("untaken", seed, "short" if is_short else "long", transport, problems)


def _judged(
    function: Callable[..., Any],
    num_ranks: int,
    judged: Callable[[int, Any], bool],
    transport: str,
    *arguments: Any,
) -> list[str]:
    """Problems of a run: what ranks raise, or return that is not right."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "store")
        try:
            results = _ranks.run_ranks(
                function, num_ranks, path, transport, *arguments, backend=None
            )
        except _ranks.RankError as error:
            return [str(error)]
    return [f"rank {r} gave {given}" for r, given in enumerate(results) if not judged(r, given)]


def _row(kind: str, seed: int, how: str, transport: str, problems: list[str]) -> Row:
    row = {"kind": kind, "seed": seed, "how": how, "transport": transport}
    return row | {"problems": problems}
