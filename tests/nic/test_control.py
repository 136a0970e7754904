"""Tests of the control: commit, start, done, interrupt, and the counters."""

import pytest

from multitree.nic.faults import FaultCode
from tests.nic.blocks import SMALL, put, seeded
from tests.nic.controls import CHECK_CYCLES, FETCH_CYCLES, committed, scenario


def test_a_commit_checks_once_and_holds_until_something_is_written():
    async def steps(nic):
        await nic.tick(commit=1)
        assert nic.get("busy", "committed", "running") == (1, 0, 0)
        for _ in range(CHECK_CYCLES):
            assert nic.get("busy")
            await nic.tick()
        await nic.tick()
        assert nic.get("busy", "committed") == (0, 1)
        await nic.idle()
        assert (nic.checks, nic.get("committed")) == (1, 1)
        await nic.tick(invalidate=1)
        assert nic.get("committed") == 0
        await nic.tick(commit=1)
        await nic.idle()
        assert nic.get("committed") == 1
        await nic.tick(commit=1)
        assert nic.get("committed") == 0, "from the first cycle of another check on"

    scenario(steps)


def test_a_check_that_finds_a_fault_commits_nothing_and_drops_a_start():
    async def steps(nic):
        await nic.tick(commit=1)
        await nic.tick(start=1)
        await nic.tick(faulted=1)
        await nic.idle()
        assert nic.get("committed", "busy", "irq") == (0, 0, 1)
        assert nic.launches == 0

    scenario(steps)


@pytest.mark.parametrize(
    ("commit", "settings", "code"),
    [
        (0, {}, FaultCode.NOT_COMMITTED),
        (1, {"iterations": 1}, FaultCode.ITERATIONS),
        (1, {"iterations": 1 << 31}, FaultCode.ITERATIONS),
        (1, {"legal": 0}, FaultCode.SETTINGS_ILLEGAL),
    ],
)
def test_a_start_that_may_not_be_is_a_named_fault(commit, settings, code):
    async def steps(nic):
        await nic.tick(commit=commit, **settings)
        await nic.idle()
        assert not nic.faults
        await nic.tick(start=1)
        assert nic.faults == [code]
        await nic.tick(faulted=1)
        assert nic.get("running", "busy", "irq") == (0, 0, 1)
        assert nic.launches == 0

    scenario(steps)


@pytest.mark.parametrize("when", range(-1, CHECK_CYCLES + 4))
def test_a_start_with_a_commit_or_during_its_check_is_remembered(when):
    async def steps(nic):
        await nic.tick(commit=1, start=when < 0)
        for cycle in range(CHECK_CYCLES + 6):
            await nic.tick(start=cycle == when)
        assert nic.launches == 1 and not nic.faults

    scenario(steps)


@pytest.mark.parametrize("when", range(CHECK_CYCLES))
def test_a_remembered_start_lowers_the_interrupt_of_the_collective_before_at_once(when):
    """Or a host that waits for the interrupt would take the old one for the new one."""

    async def steps(nic):
        await committed(nic)
        await nic.tick(start=1)
        await nic.idle(30)
        assert nic.get("done", "irq") == (1, 1)
        await nic.tick(commit=1)
        for _ in range(when):
            await nic.tick()
        assert nic.get("done", "irq") == (1, 1)
        await nic.tick(start=1)
        assert nic.get("done", "irq") == (0, 0)
        while not nic.get("done"):
            assert not nic.get("irq")
            await nic.tick()
        assert nic.launches == 2

    scenario(steps)


@pytest.mark.parametrize("again", range(CHECK_CYCLES - 1, CHECK_CYCLES + 3))
def test_a_remembered_start_is_not_lost_to_a_commit_in_any_cycle(again):
    """The bus refuses a commit while busy; the cycle in which the start goes is not busy."""

    async def steps(nic):
        await nic.tick(commit=1)
        await nic.tick(start=1)
        for cycle in range(1, 4 * CHECK_CYCLES):
            await nic.tick(commit=cycle == again and not nic.get("busy"))
        assert nic.launches == 1 and not nic.faults

    scenario(steps)


@pytest.mark.parametrize("seed", range(6))
def test_done_is_never_before_the_last_row_the_last_arrival_and_the_last_read(seed):
    rng = seeded(seed)
    num_arrivals = rng.choice([0, 1, 5, 20])

    async def steps(nic):
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

    scenario(steps, num_arrivals=num_arrivals)


def test_the_interrupt_is_high_from_done_until_acknowledged_or_started_again():
    async def steps(nic):
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

    scenario(steps)


@pytest.mark.parametrize("when", range(FETCH_CYCLES - 2, FETCH_CYCLES + 2))
def test_an_early_acknowledgement_does_not_swallow_the_interrupt(when):
    async def steps(nic):
        await committed(nic)
        await nic.tick(start=1)
        for cycle in range(FETCH_CYCLES + 5):
            early = cycle == when and not nic.get("done")
            await nic.tick(acknowledge=early)
        assert nic.get("done", "irq") == (1, 1)

    scenario(steps)


def test_a_fault_stops_the_run_at_once_keeps_the_interrupt_and_the_sequence():
    async def steps(nic):
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
        assert nic.get("irq", "running") == (1, 0)
        assert (nic.checks, nic.launches, nic.faults) == (1, 1, [])

    scenario(steps, num_arrivals=3)


def test_collectives_are_numbered_modulo_256():
    async def steps(nic):
        await committed(nic)
        for number in range(258):
            assert nic.get("sequence") == number % 256
            await nic.tick(start=1)
            while not nic.get("done"):
                await nic.tick()
        assert nic.launches == 258

    scenario(steps)
