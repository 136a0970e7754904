"""Tests of whole interfaces: two of them, their registers, links and memories."""

import itertools

import pytest

from multitree.nic.driver.commands import ACKNOWLEDGE, COMMIT, START, run_writes
from multitree.nic.driver.registers import ADDRESS
from multitree.nic.driver.table import table_writes
from tests.nic.top.pair import (
    CONFIG,
    LANES,
    SCHEDULE,
    by_hand,
    images,
    integers,
    settings,
    simulate,
    summed,
    tables,
    words,
)

# The third flow goes first: its root has nothing else to wait for.
MORE_FLOWS = by_hand(
    [
        (2 * (flow < 2) + op, op, flow, (flow + op + 1) % 2, (flow + op) % 2)
        for flow in range(3)
        for op in (0, 1)
    ]
)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(("count", "stall"), [(23, "seldom"), (1, "often"), (8, "bursts")])
def test_both_ranks_end_with_the_sum_in_memory_each_time_the_table_runs(count, stall):
    """A length that divides nothing, one flow of two empty, and whole flits."""
    num_flits, buffers, times = -(-count // LANES), integers(count, count), 3
    memories = images(buffers, num_flits)

    async def script(host):
        await host.prepare(num_flits)
        await host.committed()
        for number in range(times):
            await host.wait(150 * ((host.rank + number) % 2))
            await host.run()
            assert not (await host.status())["busy"]
            assert await host.read("ARRIVALS_MISSING") == 0
            assert await host.read("SEQUENCE") == number + 1
            assert 0 < await host.read("CYCLES") < 900
            (port,) = await host.ports()
            assert port.flits_sent == port.flits_received == num_flits
            assert port.credits_low < CONFIG.buffer_flits
            await host.write(ACKNOWLEDGE)

    simulate(script, memories, seed=count, stall=stall)
    for image, memory in zip(images(summed(buffers, times), num_flits), memories, strict=True):
        assert memory == image + [0] * (len(memory) - len(image))


def simulate_jobs(script, *jobs):
    """Run hosts with jobs, each a size in flits and a schedule: all get their results in memory.

    The script has (base, size, schedule) of each: windows are one behind another.
    """
    bases = [0, *itertools.accumulate(size for size, _ in jobs)]
    jobs = [(base, *job) for base, job in zip(bases, jobs, strict=False)]
    buffers = [integers(size, size * LANES) for _, size, _ in jobs]
    memories = [[], []]
    for (_, size, _), rows in zip(jobs, buffers, strict=True):
        for memory, row in zip(memories, rows, strict=True):
            memory += words(row, size)
    simulate(lambda host: script(host, jobs), memories)
    for (base, size, schedule), rows in zip(jobs, buffers, strict=True):
        for row, memory in zip(summed(rows, schedule=schedule), memories, strict=True):
            assert memory[base : base + size] == words(row, size)


async def unlocked(host, table):
    """Wait until the next table may be written; this one is active."""
    while (await host.status())["locked"]:
        await host.wait(1)
    assert await host.read("ACTIVE_CRC") == table_writes(table)[-1][1]


@pytest.mark.slow
def test_collectives_follow_each_other_without_a_barrier_and_with_another_table():
    async def script(host, jobs):
        for number, (base, size, schedule) in enumerate(jobs):
            await host.prepare(size, schedule, window_base=base)
            await host.run()
            await host.write(ACKNOWLEDGE)
            await host.wait((300, 0)[(number + host.rank) % 2])

    simulate_jobs(script, (3, MORE_FLOWS), (11, SCHEDULE), (5, MORE_FLOWS), (12, SCHEDULE))


@pytest.mark.slow
def test_the_next_schedule_is_loaded_while_one_runs_and_starts_right_behind_it():
    """Every register of the second collective is written, and it is started, during the first."""

    async def script(host, jobs):
        for number, (base, size, schedule) in enumerate(jobs):
            # The long first one: its partner keeps it waiting until the second is loaded.
            await host.wait(400 * (host.rank == 1 and number == 0))
            table = await host.prepare(size, schedule, window_base=base)
            await host.write(START)
            assert (await host.status())["fault"] == 0
            if number:
                await host.interrupt()
                await host.write(ACKNOWLEDGE)
            await unlocked(host, table)
        await host.interrupt()
        await host.write(ACKNOWLEDGE)
        assert await host.read("SEQUENCE") == len(jobs)
        assert (await host.status())["done"] == 0

    simulate_jobs(script, (22, SCHEDULE), (9, MORE_FLOWS), (10, SCHEDULE))


@pytest.mark.slow
def test_commit_and_start_in_one_write_run_the_table_that_was_written():
    """CONTROL = 3 on interfaces that hold another table: idle first, then while that one runs."""

    async def script(host, jobs):
        for number, (base, size, schedule) in enumerate(jobs):
            # The third runs until its partner is loaded, so that the fourth comes meanwhile.
            await host.wait(400 * (host.rank == 1 and number == 2))
            table = tables(size, schedule)[host.rank]
            await host.write(*table_writes(table), *run_writes(settings(size, window_base=base)))
            await host.write((ADDRESS["CONTROL"], COMMIT[1] | START[1]))
            if number != 2:
                await host.interrupt()
                await host.write(ACKNOWLEDGE)
            await unlocked(host, table)
        while await host.read("SEQUENCE") < len(jobs):
            pass
        await host.write(ACKNOWLEDGE)

    simulate_jobs(script, (12, SCHEDULE), (9, MORE_FLOWS), (22, SCHEDULE), (10, MORE_FLOWS))


def test_the_count_of_what_came_in_can_be_read_while_a_collective_waits():
    async def script(host):
        await host.prepare(40, first_arrival_cycles=0)
        await host.write(START)
        counts = []
        while host.rank == 1 and (not counts or counts[-1] < 5):
            await host.write((ADDRESS["COUNT_SELECT"], 1))
            await host.wait(32)
            counts.append(await host.read("COUNT"))
        assert counts == sorted(counts)
        await host.interrupt()

    simulate(script, [[], []])
