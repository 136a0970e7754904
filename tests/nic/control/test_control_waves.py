"""Tests of the control where tables are repeated: how often, and how many."""

from dataclasses import replace

import pytest

from multitree.nic.driver.faults import FaultCode
from tests.hw.streams import put
from tests.nic.blocks import SMALL
from tests.nic.control.controls import CHECK_CYCLES, committed, scenario

WIDTH = 3
REPEATS = replace(SMALL, wave_width=WIDTH)


@pytest.mark.parametrize(("iterations", "last_stage"), [(0, 0), (4, 0), (0, 5), (2, 6), (7, 7)])
@scenario(config=REPEATS)
async def test_a_table_is_run_once_per_wave_and_once_more_per_stage(nic, iterations, last_stage):
    put(nic.ctx, nic.block, last_stage=last_stage, iterations=iterations)
    await committed(nic)
    await nic.tick(start=1)
    assert nic.get("running", "last_run") == (1, iterations + last_stage)
    assert not nic.faults


@scenario(config=REPEATS)
async def test_each_start_has_its_own_waves_and_the_stages_are_those_of_the_table_that_runs(nic):
    put(nic.ctx, nic.block, last_stage=2, iterations=1)
    await committed(nic)
    for iterations in (5, 0, 3):
        put(nic.ctx, nic.block, iterations=iterations)
        await nic.tick(start=1)
        assert nic.get("last_run") == iterations + 2
        # The settings of the next start do not change this one's.
        put(nic.ctx, nic.block, iterations=7)
        await nic.idle(4)
        assert nic.get("last_run") == iterations + 2
        await nic.idle()
    put(nic.ctx, nic.block, iterations=1)
    await nic.tick(start=1)
    put(nic.ctx, nic.block, last_stage=6)
    await nic.tick(commit=1)
    assert nic.get("last_run") == 3
    await nic.tick(start=1)
    await nic.idle(2 * CHECK_CYCLES)
    assert nic.events[-2:] == ["swap", "launch"] and nic.get("last_run") == 7


@pytest.mark.parametrize("bit", range(WIDTH, 32))
@scenario(config=REPEATS)
async def test_more_waves_than_there_are_numbers_for_are_a_fault(nic, bit):
    await committed(nic)
    await nic.tick(start=1, iterations=1 << bit)
    assert nic.faults == [FaultCode.ITERATIONS] and nic.launches == 0
