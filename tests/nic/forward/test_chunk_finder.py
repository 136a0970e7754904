"""Tests of the finder: chunks are found just when they may be read."""

from dataclasses import replace

import pytest

from multitree.nic.forward.chunk_finder import ChunkFinder
from multitree.nic.forward.positions import position_width
from tests.hw.streams import PATTERNS, go, receive, run, seeded, send
from tests.nic.blocks import plain, start
from tests.nic.forward.ports import FORWARDING
from tests.nic.memory import tracker

S = FORWARDING.submessage_flits
WAVES = replace(FORWARDING, wave_width=4)


def beginning(config, position, wave=0):
    """What the tracker of beginnings keeps of a message."""
    return position | 1 << position_width(config) | wave << (position_width(config) + 1)


def whole(config, job):
    """The count at which all of a job's chunk is in memory."""
    return max(1, -(-job["size"] // S)) | job.get("wave", 0) << config.part_width


def simulate(config, jobs, begins, counts, *, stalls=("never",) * 3, seed=0, **settings):
    """Found chunks and the cycle of each; `begins` and `counts` answer (cycle, flow)."""
    block = ChunkFinder(config)
    found, times = [], []
    asked = {(job["flow"], job["need_port"], job["need_op"]) for job in jobs}

    def answers(of):
        def count(cycle, port, op, flow):
            assert (flow, port, op) in asked
            return of(cycle, flow)

        return count

    async def give(ctx):
        start(ctx, block, **settings)
        await send(ctx, block.jobs, jobs, go(stalls[0], seed))

    async def take(ctx):
        moves = go(stalls[1], seed)
        found.extend(map(plain, await receive(ctx, block.found, len(jobs), moves, times)))
        await ctx.tick()
        assert ctx.get(block.idle)

    questions = [
        tracker(block.beginning, answers(begins), stall=stalls[2], seed=seed),
        tracker(block.query, answers(counts), stall=stalls[2], seed=seed + 1),
    ]
    run(block, give, take, background=questions)
    for job, chunk in zip(jobs, found, strict=True):
        assert {name: chunk[name] for name in job} == job
    return found, times


def random_jobs(rng, count):
    return [
        {"row": k, "flow": k, "op": rng.randrange(2), "base": 30 * k}
        | {"size": rng.choice([0, 1, S, S + 1, 20]), "needs": rng.randrange(2)}
        | {"need_port": rng.randrange(3), "need_op": rng.randrange(2)}
        for k in range(count)
    ]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", range(2))
def test_with_cut_through_a_chunk_is_found_once_its_message_has_begun(pattern, seed):
    rng = seeded(seed)
    jobs = random_jobs(rng, 12)
    due = [30 * k + rng.randrange(60) for k in range(12)]

    def begins(cycle, flow):
        return beginning(FORWARDING, 3 * flow) if cycle >= due[flow] else 0

    given = {"stalls": ("seldom", pattern, pattern), "seed": seed, "cut_through": 1}
    found, times = simulate(FORWARDING, jobs, begins, lambda *_: 0, **given)
    for job, chunk, time in zip(jobs, found, times, strict=True):
        assert chunk["tracked"] == job["needs"]
        if job["needs"]:
            assert chunk["position"] == 3 * job["flow"] and time > due[job["flow"]]


@pytest.mark.parametrize("seed", range(3))
def test_without_cut_through_a_chunk_is_found_once_all_of_it_is_acknowledged(seed):
    jobs = random_jobs(seeded(seed), 10)
    due = {}

    def counts(cycle, flow):
        # One sub-message more every seven cycles.
        first = due.setdefault(flow, cycle)
        return min((cycle - first) // 7, whole(FORWARDING, jobs[flow]))

    found, times = simulate(
        FORWARDING, jobs, lambda *_: beginning(FORWARDING, 5), counts, seed=seed, cut_through=0
    )
    for job, chunk, time in zip(jobs, found, times, strict=True):
        assert not chunk["tracked"]
        if job["needs"]:
            assert time > due[job["flow"]] + 7 * whole(FORWARDING, job)


@pytest.mark.parametrize("wave, begun, tracked", [(3, 3, 1), (3, 4, 0), (3, 9, 0), (0, 1, 0)])
def test_a_message_whose_next_wave_has_begun_is_read_from_memory_once_it_is_all_there(
    wave, begun, tracked
):
    job = {"row": 1, "flow": 2, "op": 0, "base": 9, "size": 2 * S, "wave": wave}
    job |= {"needs": 1, "need_port": 1, "need_op": 0}

    def counts(cycle, flow):
        return whole(WAVES, job) - (cycle < 40)

    (chunk,), (time,) = simulate(
        WAVES, [job], lambda *_: beginning(WAVES, 6, begun), counts, cut_through=1
    )
    assert chunk["tracked"] == tracked
    assert time < 20 if tracked else time > 40


def test_an_earlier_wave_is_not_the_one_that_is_awaited():
    job = {"row": 1, "flow": 2, "op": 0, "base": 9, "size": S, "wave": 2}
    job |= {"needs": 1, "need_port": 1, "need_op": 0}

    def begins(cycle, flow):
        return beginning(WAVES, 6 + cycle // 50, cycle // 20)

    (chunk,), (time,) = simulate(WAVES, [job], begins, lambda *_: 0, cut_through=1)
    assert chunk["tracked"] and 40 < time < 60
