"""Tests of what whole interfaces refuse, of their faults, and of reset."""

import dataclasses

import numpy as np
import pytest

from multitree.hw.link.link import Kind
from multitree.nic.driver.commands import ACKNOWLEDGE, COMMIT, RESET, START, run_writes
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.registers import ADDRESS, FLOW_WINDOW, TABLE_WINDOW
from multitree.nic.driver.table import table_writes
from tests.nic.top.pair import idle, integers, prepare, settings, simulate, summed, tables, words


@pytest.mark.slow
def test_an_illegal_row_is_found_before_anything_is_sent_and_the_other_rank_is_reported_where():
    sent = []

    async def wrong(host):
        table = tables(4)[0]
        port = np.array([*table.port[:-1], 9])
        await prepare(host, dataclasses.replace(table, port=port), settings(4))
        await host.interrupt()
        fault = await host.fault()
        assert (fault.code, fault.row) == (FaultCode.ROW_ILLEGAL, table.num_rows - 1)
        await host.write(START)
        await host.wait(50)
        assert not (await host.status())["busy"]

    async def right(host):
        await host.prepare(4, first_arrival_cycles=500)
        await host.write(START)
        await host.interrupt()
        fault = await host.fault()
        assert (fault.code, fault.at_port) == (FaultCode.PEER_FAULT, 0)
        assert await host.read("FAULT_ORIGIN") == 0 | FaultCode.ROW_ILLEGAL << 16 | 1 << 24

    def watch(pair):
        async def process(ctx):
            while True:
                link = pair.ranks[0].link[0].tx
                _, _, valid, kind = await ctx.tick().sample(link.valid, link.kind)
                sent.extend([kind] * (valid and kind.value < Kind.DOWN.value))

        return process

    simulate([wrong, right], [[], []], background=[watch])
    assert not sent


@pytest.mark.slow
@pytest.mark.parametrize("change", ["row", "flow", "rows", "flows", "crc", "flits"])
def test_only_the_very_table_that_the_host_meant_is_committed(change):
    """One word fewer, one more, or another one: nothing is started that is not whole."""
    table = tables(4)[0]
    writes = table_writes(table)
    num_rows, num_flows, crc = (value for _, value in writes[-3:])
    wrong = {
        "row": [(TABLE_WINDOW.address(1, 1), 5)],
        "flow": [(FLOW_WINDOW.address(0, 1), 1)],
        "rows": [(ADDRESS["NUM_ROWS"], num_rows - 1)],
        "flows": [(ADDRESS["NUM_FLOWS"], num_flows + 1)],
        "crc": [(ADDRESS["TABLE_CRC"], crc ^ 1 << 31)],
        "flits": [(ADDRESS["WINDOW_FLITS"], 3)],
    }[change]

    async def script(host):
        await host.write(*writes, *run_writes(settings(4)), *wrong, COMMIT, START)
        await host.interrupt()
        # What was never written is no legal flow.
        illegal = {"flits": 1, "flows": num_flows}.get(change)
        code = FaultCode.TABLE_CRC if illegal is None else FaultCode.FLOW_ILLEGAL
        fault = await host.fault()
        assert (fault.code, fault.row, fault.flow) == (code, None, illegal)
        status = await host.status()
        assert (status["committed"], status["busy"], status["done"]) == (0, 0, 0)

    simulate([script, idle], [[], []])


def test_a_start_needs_a_commit_and_the_length_that_was_committed():
    async def without(host):
        await host.write(*table_writes(tables(4)[0]), *run_writes(settings(4)), START)
        await host.interrupt()
        assert (await host.fault()).code == FaultCode.NOT_COMMITTED

    async def longer(host):
        await host.prepare(4)
        await host.committed()
        for name in ("WINDOW_BASE", "WATCHDOG_CYCLES", "MODE", "COUNT_SELECT", "ITERATIONS"):
            await host.write((ADDRESS[name], 0))
        await host.write((ADDRESS["WINDOW_FLITS"], 5))
        assert (await host.status())["committed"]
        await host.write(START)
        await host.interrupt()
        assert (await host.fault()).code == FaultCode.SETTINGS_ILLEGAL

    # Apart, or one rank's fault would reach the other before it is done.
    simulate([without, idle], [[], []])
    simulate([idle, longer], [[], []])


def test_what_a_waiting_commit_or_start_goes_by_cannot_be_changed():
    table = tables(4)[0]
    changes = [(TABLE_WINDOW.base, 0), (FLOW_WINDOW.base, 0), (ADDRESS["MODE"], 1)]
    changes += [(ADDRESS[name], 1) for name in ("NUM_ROWS", "TABLE_CRC", "WINDOW_BASE")]

    async def script(host):
        await host.prepare(4, first_arrival_cycles=0)
        for write in (changes[0], COMMIT):
            assert (await host.access(*write))[1], f"write to {write[0]:#x} during the check"
        await host.committed()
        await host.write(START)
        assert (await host.status())["locked"] == 0
        # The next collective's may be written while this one runs, and may wait.
        await host.write(*table_writes(table), *run_writes(settings(4)), START)
        for write in (*changes, COMMIT, START, (0xFFC, 0)):
            assert (await host.access(*write))[1], f"write to {write[0]:#x}"
        status = await host.status()
        assert (status["busy"], status["locked"], status["fault"]) == (1, 1, 0)
        await host.write((ADDRESS["COUNT_SELECT"], 1))
        assert (await host.access(TABLE_WINDOW.base))[1], "write-only"

    simulate([script, idle], [[], []])


def test_a_fault_is_kept_until_reset_and_then_the_same_table_runs():
    buffers = integers(9, 8)
    memories = [words(row, 4) for row in buffers]

    async def script(host):
        table = await host.prepare(4, window_base=0)
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
        assert await host.read("NUM_ROWS") == table.num_rows
        await host.run((ADDRESS["MODE"], 0), *table_writes(table), COMMIT)

    simulate(script, memories)
    assert [memory[:4] for memory in memories] == [words(row, 4) for row in summed(buffers)]


@pytest.mark.slow
@pytest.mark.parametrize("when", [5, 20, 60])
def test_a_reset_in_the_middle_leaves_nothing_of_what_memory_was_asked_before(when):
    memories = [words(row, 20) for row in integers(9, 40)]
    before = [[], []]

    async def script(host):
        table = await host.prepare(20, window_base=0)
        await host.committed()
        await host.write(START)
        await host.wait(when)
        await host.reset()
        await host.wait(200)
        before[host.rank] = memories[host.rank][:20]
        await host.run(*table_writes(table), COMMIT)

    simulate(script, memories, late=60)
    result = summed(np.array(before, np.uint64).view(np.int32))
    assert [memory[:20] for memory in memories] == [words(row, 20) for row in result]
