"""Tests of the step counter, and of where a wave begins."""

import pytest

from multitree.nic.driver.config import Config
from multitree.nic.send.rows import StepCounter, WaveOffset
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL, start

FETCH_CYCLES = 3
"""Cycles from a row that went to the next one in hand, as the fetcher has them."""


@simulation_of(lambda: StepCounter(SMALL))
async def simulate(ctx, block, rows, *, step_cycles, lockstep=1, blocked=()):
    """For each row (step, nop) the cycle it went in, counted from the start, and the step then.

    Rows are in hand one at a time; a row of index in `blocked` goes so many cycles after it may,
    as if its port's queue were full.
    """
    went, cycle = [], 0
    start(ctx, block, lockstep=lockstep, step_cycles=step_cycles)
    ctx.set(block.start, 1)
    await ctx.tick()
    ctx.set(block.start, 0)
    for index, (step, nop) in enumerate(rows):
        await ctx.tick().repeat(FETCH_CYCLES)
        cycle += FETCH_CYCLES
        put(ctx, block, row_valid=1, row_step=step, nop=nop)
        waits, goes = dict(blocked).get(index, 0), 0
        while not goes or waits >= 0:
            _, _, goes, reached = await ctx.tick().sample(block.go, block.step)
            cycle += 1
            waits -= goes
        went.append((cycle - 1, reached))
        ctx.set(block.row_valid, 0)
    return went


@pytest.mark.parametrize("step_cycles", [9, 20, 100])
def test_in_lockstep_a_row_goes_when_its_step_begins_and_steps_last_their_time(step_cycles):
    steps = [0, 1, 2, 5, 6]
    went = simulate([(step, 0) for step in steps], step_cycles=step_cycles)
    assert went == [(max(FETCH_CYCLES, step * step_cycles), step) for step in steps]


@pytest.mark.parametrize("step_cycles", [9, 20])
def test_a_nop_waits_out_its_step_and_does_not_make_the_next_ones_late(step_cycles):
    rows = [(0, 1), (1, 1), (2, 0), (3, 1), (4, 0)]
    went = [cycle for cycle, _ in simulate(rows, step_cycles=step_cycles)]
    for (step, nop), cycle in zip(rows, went, strict=True):
        if nop:
            assert cycle == (step + 1) * step_cycles - 1, "the last cycle of its step"
        else:
            # Fetched while its step had begun.
            assert cycle == step * step_cycles + FETCH_CYCLES


def test_rows_of_one_step_go_one_after_the_other():
    went = simulate([(0, 0), (3, 0), (3, 0), (3, 0), (4, 0)], step_cycles=30)
    assert went == [(3, 0), (90, 3), (94, 3), (98, 3), (120, 4)]


def test_a_row_that_goes_late_makes_its_step_longer_and_the_next_ones_as_long_as_ever():
    rows = [(step, 0) for step in range(4)]
    went = simulate(rows, step_cycles=20, blocked=[(1, 50)])
    assert went[:2] == [(3, 0), (70, 1)]
    # Step 2 begins when its row comes into hand, and step 3 a step's time later.
    assert went[2:] == [(75, 2), (95, 3)]


@pytest.mark.parametrize("step_cycles", [0, 1])
def test_a_step_lasts_at_least_a_cycle(step_cycles):
    assert simulate([(0, 0), (40, 0)], step_cycles=step_cycles)[1] == (47, 40)


def test_without_lockstep_rows_go_when_they_come_and_the_step_is_the_rows():
    rows = [(0, 0), (2, 1), (9, 0), (9, 0)]
    went = simulate(rows, step_cycles=1000, lockstep=0)
    assert [cycle for cycle, _ in went] == [3, 7, 11, 15]
    # The step follows in the cycle after.
    assert [step for _, step in went] == [0, 0, 2, 9]


def test_the_step_has_all_bits_of_a_rows():
    went = simulate([(65_535, 0), (65_535, 0)], step_cycles=20, lockstep=0)
    assert [step for _, step in went] == [0, 65_535]


@simulation_of(lambda: StepCounter(SMALL))
async def test_a_start_begins_at_step_0_again(ctx, block):
    start(ctx, block, lockstep=1, step_cycles=10)
    for _ in range(2):
        ctx.set(block.start, 1)
        await ctx.tick()
        put(ctx, block, start=0, row_valid=1, row_step=3)
        for cycle in range(35):
            assert ctx.get(block.step) == min(3, cycle // 10)
            assert ctx.get(block.go) == (cycle >= 30)
            await ctx.tick()


@pytest.mark.parametrize(("address_width", "wave_width"), [(4, 1), (10, 3), (24, 11), (31, 1)])
@simulation_of(
    lambda address_width, wave_width: WaveOffset(
        Config(address_width=address_width, wave_width=wave_width)
    )
)
async def test_a_wave_begins_its_number_of_strides_behind_the_first_or_beyond_all_addresses(
    ctx, block, address_width, wave_width
):
    rng = seeded(address_width)
    end, reported = 1 << address_width, set()
    for _ in range(400):
        wave, base = rng.randrange(1 << wave_width), rng.randrange(end)
        # Near the last address that there is, on either side.
        near = (end - base) // max(wave, 1) + rng.randrange(-2, 3)
        stride = min(max(rng.choice([near, rng.randrange(end)]), 0), end - 1)
        put(ctx, block, wave=wave, stride=stride, base=rng.randrange(end))
        await ctx.tick()
        # The next question is asked meanwhile.
        put(ctx, block, wave=rng.randrange(1 << wave_width), stride=rng.randrange(end), base=base)
        place = base + wave * stride
        assert ctx.get(block.beyond) == (place >= end)
        if place < end:
            assert ctx.get(block.address) == place
        reported.add((place >= end, wave > 0))
    assert {(False, True), (True, True), (False, False)} <= reported
