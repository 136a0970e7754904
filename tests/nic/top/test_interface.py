"""Tests of whole interfaces: two of them, their registers, links and memories."""

import pytest

from multitree.nic.driver.commands import ACKNOWLEDGE, COMMIT, START, run_writes
from multitree.nic.driver.registers import ADDRESS
from multitree.nic.driver.table import table_writes
from multitree.topology.families.direct import ring
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule
from tests.nic.top.pair import (
    BASE,
    CONFIG,
    LANES,
    SCHEDULE,
    integers,
    prepare,
    settings,
    simulate,
    tables,
    words,
)

# The third flow goes first: its root has nothing else to wait for.
MORE_FLOWS = Schedule.from_rows(
    ring(2),
    algorithm="by hand",
    collective="all_reduce",
    flow_offsets=[0, 1, 2, 3],
    rows=[
        (2 * (flow < 2) + op, op, flow, (flow + op + 1) % 2, (flow + op) % 2)
        for flow in range(3)
        for op in (0, 1)
    ],
)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(("count", "stall"), [(23, "seldom"), (1, "often"), (8, "bursts")])
def test_both_ranks_end_with_the_sum_in_memory_each_time_the_table_runs(count, stall):
    """A length that divides nothing, one flow of two empty, and whole flits."""
    num_flits = -(-count // LANES)
    buffers = integers(count, count)
    memories = [[7] * BASE + words(row, num_flits) for row in buffers]
    times = 3

    def script(rank):
        async def host_of(host):
            await prepare(host, tables(num_flits)[rank], settings(num_flits))
            await host.committed()
            for number in range(times):
                await host.wait(150 * ((rank + number) % 2))
                await host.write(START)
                await host.interrupt()
                status = await host.status()
                assert (status["done"], status["busy"], status["fault"]) == (1, 0, 0)
                assert await host.read("ARRIVALS_MISSING") == 0
                assert await host.read("SEQUENCE") == number + 1
                assert 0 < await host.read("CYCLES") < 900
                (port,) = await host.ports()
                assert port.flits_sent == port.flits_received == num_flits
                assert port.credits_low < CONFIG.buffer_flits
                await host.write(ACKNOWLEDGE)

        return host_of

    simulate([script(0), script(1)], memories, seed=count, stall=stall)
    for _ in range(times):
        buffers = execute(SCHEDULE, buffers, flit_bytes=8)
    for row, memory in zip(buffers, memories, strict=True):
        assert memory == [7] * BASE + words(row, num_flits) + [0] * (len(memory) - BASE - num_flits)


def windows_of(jobs):
    """Buffers for jobs, each a size in flits and a schedule, and memories one behind another."""
    buffers = [integers(size, size * LANES) for size, _ in jobs]
    memories = [[], []]
    for parts in buffers:
        for memory, row in zip(memories, parts, strict=True):
            memory += words(row, len(row) // LANES)
    return buffers, memories


def check_windows(jobs, buffers, memories):
    """Every job's window has its result."""
    base = 0
    for parts, (size, schedule) in zip(buffers, jobs, strict=True):
        for row, memory in zip(execute(schedule, parts, flit_bytes=8), memories, strict=True):
            assert memory[base : base + size] == words(row, size)
        base += size


@pytest.mark.slow
def test_collectives_follow_each_other_without_a_barrier_and_with_another_table():
    jobs = [(3, MORE_FLOWS), (11, SCHEDULE), (5, MORE_FLOWS), (12, SCHEDULE)]
    buffers, memories = windows_of(jobs)

    def script(rank):
        async def host_of(host):
            base = 0
            for number, (size, schedule) in enumerate(jobs):
                how = settings(size, window_base=base)
                await prepare(host, tables(size, schedule)[rank], how)
                await host.write(START)
                await host.interrupt()
                assert (await host.status())["done"]
                await host.write(ACKNOWLEDGE)
                await host.wait((300, 0)[(number + rank) % 2])
                base += size

        return host_of

    simulate([script(0), script(1)], memories)
    check_windows(jobs, buffers, memories)


@pytest.mark.slow
def test_the_next_schedule_is_loaded_while_one_runs_and_starts_right_behind_it():
    """Every register of the second collective is written, and it is started, during the first."""
    jobs = [(22, SCHEDULE), (9, MORE_FLOWS), (10, SCHEDULE)]
    buffers, memories = windows_of(jobs)

    def script(rank):
        async def host_of(host):
            base = 0
            for number, (size, schedule) in enumerate(jobs):
                table = tables(size, schedule)[rank]
                # The long first one: its partner keeps it waiting until the second is loaded.
                await host.wait(400 * (rank == 1 and number == 0))
                await prepare(host, table, settings(size, window_base=base))
                await host.write(START)
                base += size
                assert (await host.status())["fault"] == 0
                if number:
                    await host.interrupt()
                    await host.write(ACKNOWLEDGE)
                while (await host.status())["locked"]:
                    await host.wait(1)
                crc = table_writes(table)[-1][1]
                assert await host.read("ACTIVE_CRC") == crc
            await host.interrupt()
            await host.write(ACKNOWLEDGE)
            assert await host.read("SEQUENCE") == len(jobs)
            assert (await host.status())["done"] == 0

        return host_of

    simulate([script(0), script(1)], memories)
    check_windows(jobs, buffers, memories)


@pytest.mark.slow
def test_commit_and_start_in_one_write_run_the_table_that_was_written():
    """CONTROL = 3 on interfaces that hold another table: idle first, then while that one runs."""
    jobs = [(12, SCHEDULE), (9, MORE_FLOWS), (22, SCHEDULE), (10, MORE_FLOWS)]
    buffers, memories = windows_of(jobs)

    def script(rank):
        async def host_of(host):
            base = 0
            for number, (size, schedule) in enumerate(jobs):
                # The third runs until its partner is loaded, so that the fourth comes meanwhile.
                await host.wait(400 * (rank == 1 and number == 2))
                table, how = tables(size, schedule)[rank], settings(size, window_base=base)
                await host.write(*table_writes(table), *run_writes(how))
                await host.write((ADDRESS["CONTROL"], COMMIT[1] | START[1]))
                base += size
                if number != 2:
                    await host.interrupt()
                    await host.write(ACKNOWLEDGE)
                while (await host.status())["locked"]:
                    await host.wait(1)
                assert await host.read("ACTIVE_CRC") == table_writes(table)[-1][1]
            while await host.read("SEQUENCE") < len(jobs):
                pass
            await host.write(ACKNOWLEDGE)

        return host_of

    simulate([script(0), script(1)], memories)
    check_windows(jobs, buffers, memories)


def test_the_count_of_what_came_in_can_be_read_while_a_collective_waits():
    async def ahead(host):
        await prepare(host, tables(40)[0], settings(40, first_arrival_cycles=0))
        await host.write(START)
        await host.interrupt()

    async def behind(host):
        await prepare(host, tables(40)[1], settings(40, first_arrival_cycles=0))
        await host.write(START)
        counts = []
        while not counts or counts[-1] < 5:
            await host.write((ADDRESS["COUNT_SELECT"], 1))
            await host.wait(32)
            counts.append(await host.read("COUNT"))
        assert counts == sorted(counts)
        await host.interrupt()

    simulate([ahead, behind], [[], []])
