"""Tests of what whole interfaces refuse, of their faults, and of reset."""

import numpy as np
import pytest

from multitree.nic.faults import Awaited, FaultCode
from multitree.nic.program import ACKNOWLEDGE, COMMIT, RESET, START, table_writes
from multitree.nic.registers import ADDRESS, TABLE_WINDOW
from multitree.topology.execute import execute
from tests.nic.pair import SCHEDULE, integers, prepare, settings, simulate, tables, words


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
        waited = [await host.ports()]
        await host.wait(50)
        waited.append(await host.ports())
        assert waited[0] == waited[1] and waited[0][0].stall_dependency_cycles > 400

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
            await host.write((ADDRESS["MODE"], 1 << 31), START)
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
