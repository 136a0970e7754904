"""Tests of the control: commit, start, done, interrupt, and the counters."""

from dataclasses import replace

import pytest

from multitree.hw.export.register_map import REGISTER_BYTES
from multitree.nic.control.collective import Control
from multitree.nic.driver.faults import FaultCode
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL
from tests.nic.control.controls import CHECK_CYCLES, FETCH_CYCLES, Driver, committed, scenario


@scenario()
async def test_a_commit_checks_the_shadow_bank_once_and_then_swaps_the_banks(nic):
    for bank in (1, 0, 1):
        await nic.tick(commit=1)
        for _ in range(CHECK_CYCLES):
            assert nic.get("busy", "locked", "held", "bank") == (1, 1, 0, 1 - bank)
            await nic.tick()
        await nic.tick()
        assert nic.get("busy", "locked", "committed", "bank") == (0, 0, 1, bank)
        await nic.idle()
    assert nic.events == ["check", "swap"] * 3


@scenario()
async def test_a_check_that_finds_a_fault_tells_it_swaps_nothing_and_drops_a_start(nic):
    nic.refused = 1
    await nic.tick(commit=1)
    await nic.tick(start=1)
    await nic.idle(CHECK_CYCLES - 1)
    assert nic.events == ["check"]
    await nic.tick()
    assert nic.events == ["check", "refuse"]
    put(nic.ctx, nic.block, faulted=1)
    await nic.idle()
    assert nic.get("committed", "busy", "irq", "bank", "locked") == (0, 0, 1, 0, 0)
    assert nic.launches == 0 and not nic.faults


@scenario(num_arrivals=1)
async def test_what_is_wrong_with_the_next_table_is_reported_when_the_running_collective_is_done(
    nic,
):
    await committed(nic)
    await nic.tick(start=1)
    nic.refused = 1
    await nic.tick(commit=1)
    await nic.tick(start=1)
    await nic.idle(3 * CHECK_CYCLES)
    assert "refuse" not in nic.events and nic.get("running") == 1
    await nic.tick(arrived=1)
    await nic.idle(2)
    assert nic.get("done") == 1 and nic.events[-1] == "refuse"


@pytest.mark.parametrize(
    ("commit", "settings", "code"),
    [
        (0, {}, FaultCode.NOT_COMMITTED),
        (1, {"iterations": 1}, FaultCode.ITERATIONS),
        (1, {"iterations": 1 << 31}, FaultCode.ITERATIONS),
        (1, {"legal": 0}, FaultCode.SETTINGS_ILLEGAL),
    ],
)
@scenario()
async def test_a_start_that_may_not_be_is_a_named_fault(nic, commit, settings, code):
    await nic.tick(commit=commit, **settings)
    await nic.idle()
    assert not nic.faults
    await nic.tick(start=1)
    assert nic.faults == [code]
    await nic.tick(faulted=1)
    assert nic.get("running", "busy", "irq") == (0, 0, 1)
    assert nic.launches == 0


@pytest.mark.parametrize("when", range(-1, CHECK_CYCLES + 4))
@scenario()
async def test_a_start_with_a_commit_or_during_its_check_is_remembered(nic, when):
    await nic.tick(commit=1, start=when < 0)
    for cycle in range(CHECK_CYCLES + 6):
        await nic.tick(start=cycle == when)
    assert nic.events == ["check", "swap", "launch"] and not nic.faults
    assert nic.get("start_waits", "locked") == (0, 0)


@pytest.mark.parametrize("behind", [-1, 0, 1, 2])
@pytest.mark.parametrize("running", [0, 1])
@pytest.mark.parametrize("when", range(3, 9))
@scenario()
async def test_a_start_with_or_behind_a_commit_is_of_the_new_table_and_one_before_it_of_the_old(
    nic, when, running, behind
):
    """On an interface that holds a table, idle or in any cycle around the end of a collective.

    The start comes `behind` cycles after the commit.
    """
    put(nic.ctx, nic.block, num_arrivals=running)
    await committed(nic)
    if running:
        await nic.tick(start=1)
        await nic.idle(FETCH_CYCLES)
    for cycle in range(12):
        # The bus refuses a commit while a start waits.
        commit = cycle == when and not nic.get("locked")
        over = running and cycle == 5
        await nic.tick(commit=commit, start=cycle == when + behind, arrived=int(over))
    await nic.idle(3 * CHECK_CYCLES)
    old, new = 1, 0
    refused = "swap" not in nic.events[2:]
    assert nic.banks[running:] == [new if behind >= 0 else old]
    assert not refused or (behind < 0 and running)
    assert not nic.faults and nic.get("locked") == 0


@pytest.mark.parametrize("commit", [0, 1])
@pytest.mark.parametrize("when", range(20))
@scenario(num_arrivals=1)
async def test_a_start_while_a_collective_runs_goes_as_soon_as_that_is_done(nic, when, commit):
    await committed(nic)
    await nic.tick(start=1)
    for cycle in range(20):
        await nic.tick(commit=commit and cycle == when, start=cycle == when)
        assert nic.get("locked", "start_waits") == ((1, 1) if cycle >= when else (0, 0))
    # The check is over long before, if it began early enough.
    await nic.idle(CHECK_CYCLES)
    await nic.tick(arrived=1)
    cycles = 0
    while nic.launches < 2:
        await nic.tick()
        cycles += 1
    # The last arrival is counted, done is, and then: banks swapped, settings read.
    assert cycles == 3
    assert nic.get("sequence", "locked", "start_waits", "held") == (1, 0, 0, 1)
    swaps = ["check", "swap"] * commit
    assert nic.events == ["check", "swap", "launch", *swaps, "launch"]
    assert not nic.faults


@scenario(num_arrivals=2)
async def test_a_table_is_swapped_in_only_when_nothing_runs_and_takes_its_arrivals_with_it(nic):
    await committed(nic)
    await nic.tick(start=1)
    put(nic.ctx, nic.block, num_arrivals=3)
    await nic.tick(commit=1)
    await nic.idle(2 * CHECK_CYCLES)
    assert nic.get("bank", "locked", "missing", "running") == (1, 1, 2, 1)
    await nic.tick(arrived=3)
    await nic.idle(3)
    assert nic.get("bank", "locked", "done", "held") == (0, 0, 1, 0)
    put(nic.ctx, nic.block, num_arrivals=9)
    await nic.tick(start=1)
    assert nic.get("missing") == 3


@pytest.mark.parametrize("again", range(CHECK_CYCLES - 1, CHECK_CYCLES + 3))
@scenario()
async def test_a_remembered_start_is_not_lost_to_a_commit_in_any_cycle(nic, again):
    """The bus refuses a commit while one or a start waits."""
    await nic.tick(commit=1)
    await nic.tick(start=1)
    for cycle in range(1, 4 * CHECK_CYCLES):
        await nic.tick(commit=cycle == again and not nic.get("locked"))
    assert nic.launches == 1 and not nic.faults


@pytest.mark.parametrize("seed", range(6))
@scenario()
async def test_done_is_never_before_the_last_row_the_last_arrival_and_the_last_read(nic, seed):
    rng = seeded(seed)
    num_arrivals = rng.choice([0, 1, 5, 20])
    put(nic.ctx, nic.block, num_arrivals=num_arrivals)
    await committed(nic)
    await nic.tick(start=1)
    left, sent, cycle = num_arrivals, rng.randrange(60), 0
    quiet = None
    while not nic.get("done"):
        assert cycle < 400 and nic.get("running", "busy") == (1, 1)
        assert nic.get("missing") == left
        arrived = rng.getrandbits(SMALL.num_ports) if rng.random() < 0.2 else 0
        while bin(arrived).count("1") > left:
            arrived &= arrived - 1
        if left == 0 and cycle >= max(sent, FETCH_CYCLES) and quiet is None:
            quiet = cycle
        await nic.tick(arrived=arrived, sending=cycle < sent)
        left -= bin(arrived).count("1")
        cycle += 1
    assert quiet is not None and cycle == quiet + 1
    assert nic.get("running", "missing", "cycles", "sequence") == (0, 0, cycle, 1)


@scenario()
async def test_the_interrupt_is_high_from_done_until_it_is_acknowledged(nic):
    await committed(nic)
    for _ in range(3):
        await nic.tick(start=1)
        assert nic.get("irq", "done") == (0, 0)
        while not nic.get("done"):
            await nic.tick()
            assert nic.get("irq") == 0
        await nic.tick()
        assert nic.get("irq", "done") == (1, 1)
        await nic.idle(5)
        assert nic.get("irq") == 1
        await nic.tick(acknowledge=1)
        assert nic.get("irq", "done") == (0, 0)
        await nic.idle(5)
        assert nic.get("irq") == 0


@pytest.mark.parametrize("late", [1, 2, 3, 30])
@scenario()
async def test_collectives_in_a_row_are_acknowledged_one_by_one_however_late(nic, late):
    """The host that starts the next one cannot know whether the one before is done."""
    await committed(nic)
    await nic.tick(start=1)
    await nic.tick(start=1)
    while not nic.get("done"):
        await nic.tick()
    await nic.idle(late + 2)
    await nic.tick(acknowledge=1)
    over = nic.get("sequence") == 2
    assert nic.get("irq", "done") == (over, over)
    await nic.idle(30)
    assert nic.get("irq", "done", "sequence") == (1, 1, 2)
    await nic.tick(acknowledge=1)
    await nic.idle(5)
    assert nic.get("irq", "done") == (0, 0)


@scenario()
async def test_of_many_that_nobody_acknowledges_three_are_counted(nic):
    await committed(nic)
    for _ in range(5):
        await nic.tick(start=1)
        await nic.idle(30)
    for left in (1, 1, 0):
        await nic.tick(acknowledge=1)
        assert nic.get("done") == left


@pytest.mark.parametrize("when", range(FETCH_CYCLES - 2, FETCH_CYCLES + 2))
@scenario()
async def test_an_early_acknowledgement_does_not_swallow_the_interrupt(nic, when):
    await committed(nic)
    await nic.tick(start=1)
    for cycle in range(FETCH_CYCLES + 5):
        early = cycle == when and not nic.get("done")
        await nic.tick(acknowledge=early)
    assert nic.get("done", "irq") == (1, 1)


@scenario(num_arrivals=3)
async def test_a_fault_stops_the_run_at_once_keeps_the_interrupt_and_the_sequence(nic):
    await committed(nic)
    await nic.tick(start=1)
    await nic.idle(3)
    put(nic.ctx, nic.block, faulted=1)
    assert nic.get("running") == 0, "in the very cycle"
    await nic.idle(30)
    assert nic.get("done", "irq", "busy", "sequence") == (0, 1, 0, 0)
    await nic.tick(acknowledge=1)
    await nic.tick(commit=1)
    await nic.tick(start=1)
    await nic.idle(30)
    assert nic.get("irq", "running", "locked") == (1, 0, 0)
    assert (nic.events, nic.faults) == (["check", "swap", "launch"], [])


@pytest.mark.parametrize(
    ("config", "numbers"),
    [
        (SMALL, 1 << 22),
        (replace(SMALL, flit_bytes=16), 1 << 32),
        (replace(SMALL, flit_bytes=64), 1 << 32),
        (replace(SMALL, flit_bytes=16, num_classes=1), 256),
    ],
)
@pytest.mark.parametrize("first", [0, 5, -2])
@simulation_of(lambda config: Control(config))
async def test_collectives_are_numbered_from_the_first_on_modulo_as_many_as_heads_have(
    ctx, block, numbers, first
):
    """Later values of what a reset sets change nothing."""
    nic = Driver(ctx, block, first_sequence=first % numbers)
    await nic.tick()
    put(ctx, block, first_sequence=77)
    await committed(nic)
    for number in range(4):
        assert nic.get("sequence") == (first + number) % numbers
        await nic.tick(start=1, acknowledge=1)
        while not nic.get("done"):
            await nic.tick()
    assert nic.launches == 4


def test_cycles_are_counted_in_all_bits_of_their_register():
    assert len(Control(SMALL).cycles) == 8 * REGISTER_BYTES
