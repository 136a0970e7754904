"""Tests of whole interfaces: two of them, their registers, links and memories."""

import numpy as np
import pytest

from multitree.nic.faults import Awaited, FaultCode
from multitree.nic.program import (
    ACKNOWLEDGE,
    COMMIT,
    RESET,
    START,
    RunSettings,
    run_writes,
    table_writes,
)
from multitree.nic.registers import ADDRESS, ID, TABLE_WINDOW
from multitree.nic.table import compile_table
from multitree.topology.builders import build
from multitree.topology.execute import execute
from multitree.topology.families import ring
from multitree.topology.schedule import Schedule
from tests.nic.pair import CONFIG, LANES, simulate, words

SCHEDULE = build(ring(2), "multitree")
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
BASE = 3


def tables(num_flits, schedule=SCHEDULE):
    return [compile_table(schedule, rank, num_flits, CONFIG) for rank in range(2)]


def settings(num_flits, **changes):
    usual = {"dtype": "int32", "window_base": BASE, "window_flits": num_flits}
    return RunSettings(**usual | {"watchdog_cycles": 900, "first_arrival_cycles": 2000} | changes)


def integers(seed, count):
    return np.random.default_rng(seed).integers(-(2**31), 2**31, (2, count)).astype(np.int32)


async def prepare(host, table, how):
    assert await host.read("ID") == ID
    await host.write(*table_writes(table), *run_writes(how), COMMIT)


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
                await host.write(ACKNOWLEDGE)

        return host_of

    simulate([script(0), script(1)], memories, seed=count, stall=stall)
    for _ in range(times):
        buffers = execute(SCHEDULE, buffers, flit_bytes=8)
    for row, memory in zip(buffers, memories, strict=True):
        assert memory == [7] * BASE + words(row, num_flits) + [0] * (len(memory) - BASE - num_flits)


def test_collectives_follow_each_other_without_a_barrier_and_with_another_table():
    """Nobody acknowledges: the start takes the old interrupt back."""
    jobs = [(3, MORE_FLOWS), (11, SCHEDULE), (5, MORE_FLOWS), (12, SCHEDULE)]
    buffers = [integers(size, size * LANES) for size, _ in jobs]
    memories = [[], []]
    for parts in buffers:
        for memory, row in zip(memories, parts, strict=True):
            memory += words(row, len(row) // LANES)

    def script(rank):
        async def host_of(host):
            base = 0
            for number, (size, schedule) in enumerate(jobs):
                how = settings(size, window_base=base)
                await prepare(host, tables(size, schedule)[rank], how)
                await host.write(START)
                await host.interrupt()
                assert (await host.status())["done"]
                await host.wait((300, 0)[(number + rank) % 2])
                base += size

        return host_of

    simulate([script(0), script(1)], memories)
    base = 0
    for parts, (size, schedule) in zip(buffers, jobs, strict=True):
        for row, memory in zip(execute(schedule, parts, flit_bytes=8), memories, strict=True):
            assert memory[base : base + size] == words(row, size)
        base += size


def test_an_illegal_row_is_found_before_anything_is_sent_and_the_other_rank_tells_who_is_missing():
    sent = []

    async def wrong(host):
        table = tables(4)[0]
        where = TABLE_WINDOW.address(table.num_rows - 1)
        await prepare(host, table, settings(4))
        await host.committed()
        await host.write((where, 3 << 20), COMMIT)
        await host.interrupt()
        fault = await host.fault()
        assert (fault.code, fault.row) == (FaultCode.ROW_ILLEGAL, table.num_rows - 1)
        await host.write(START)
        await host.wait(50)
        assert not (await host.status())["busy"]

    async def right(host):
        await prepare(host, tables(4)[1], settings(4, first_arrival_cycles=500))
        await host.write(START)
        await host.interrupt()
        fault = await host.fault()
        assert (fault.code, fault.awaited) == (FaultCode.FIRST_ARRIVAL, Awaited.DEPENDENCY)
        assert (fault.port, fault.at_port) == (0, 0)

    def watch(pair):
        async def process(ctx):
            while True:
                _, _, valid = await ctx.tick().sample(pair.ranks[0].link[0].tx.valid)
                sent.extend(["a flit"] * valid)

        return process

    simulate([wrong, right], [[], []], background=[watch])
    assert not sent


def test_what_changes_the_table_takes_the_commit_back_and_nothing_else_does():
    table = tables(4)[0]
    changes = [table_writes(table)[0], table_writes(table)[-3]]
    changes += [(ADDRESS[name], 2) for name in ("NUM_ROWS", "NUM_FLOWS", "WINDOW_FLITS")]
    others = ("WINDOW_BASE", "WATCHDOG_CYCLES", "MODE", "COUNT_SELECT", "ITERATIONS")

    async def script(host):
        for change in changes:
            await prepare(host, table, settings(4))
            await host.committed()
            for name in others:
                await host.write((ADDRESS[name], 0))
            assert (await host.status())["committed"]
            await host.write(change)
            assert not (await host.status())["committed"], f"after a write to {change[0]:#x}"
        await host.write(START)
        await host.interrupt()
        assert (await host.fault()).code == FaultCode.NOT_COMMITTED

    async def nothing(host):
        await host.wait(1)

    simulate([script, nothing], [[], []])


def test_a_start_while_busy_and_an_address_that_does_not_exist_are_refused():
    async def script(host):
        await prepare(host, tables(4)[0], settings(4, first_arrival_cycles=0))
        await host.committed()
        await host.write(START)
        for write in (START, COMMIT, (ADDRESS["MODE"], 0), (TABLE_WINDOW.base, 0), (0xFFC, 0)):
            assert (await host.access(*write))[1], f"write to {write[0]:#x}"
        assert (await host.access(TABLE_WINDOW.base))[1]
        assert (await host.status())["busy"]

    async def nothing(host):
        await host.wait(1)

    simulate([script, nothing], [[], []])


def test_a_fault_is_kept_until_reset_and_then_the_same_table_runs():
    buffers = integers(9, 8)
    memories = [words(row, 4) for row in buffers]

    def script(rank):
        async def host_of(host):
            await prepare(host, tables(4)[rank], settings(4, window_base=0))
            await host.committed()
            await host.write((ADDRESS["MODE"], 2), START)
            await host.interrupt()
            assert (await host.fault()).code == FaultCode.SETTINGS_ILLEGAL
            await host.write(ACKNOWLEDGE, START)
            assert (await host.status())["fault"]
            await host.write(RESET)
            await host.wait(100)
            status = await host.status()
            assert (status["fault"], status["committed"], status["busy"]) == (0, 0, 0)
            assert await host.read("NUM_ROWS") == tables(4)[rank].num_rows
            await host.write((ADDRESS["MODE"], 0), COMMIT, START)
            await host.interrupt()
            assert (await host.status())["done"]

        return host_of

    simulate([script(0), script(1)], memories)
    for row, memory in zip(execute(SCHEDULE, buffers, flit_bytes=8), memories, strict=True):
        assert memory[:4] == words(row, 4)


@pytest.mark.parametrize("when", [5, 20, 60])
def test_a_reset_in_the_middle_leaves_nothing_of_what_memory_was_asked_before(when):
    buffers = integers(9, 40)
    memories = [words(row, 20) for row in buffers]
    before = [[], []]

    def script(rank):
        async def host_of(host):
            how = settings(20, window_base=0)
            await prepare(host, tables(20)[rank], how)
            await host.committed()
            await host.write(START)
            await host.wait(when)
            await host.write(RESET)
            while (await host.status())["busy"]:
                pass
            await host.wait(200)
            before[rank] = memories[rank][:20]
            await host.write(COMMIT, START)
            await host.interrupt()
            assert (await host.status())["done"]

        return host_of

    simulate([script(0), script(1)], memories, late=60)
    buffers = np.array(before, np.uint64).view(np.int32)
    for row, memory in zip(execute(SCHEDULE, buffers, flit_bytes=8), memories, strict=True):
        assert memory[:20] == words(row, 20)


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
