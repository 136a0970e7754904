"""Tests of a port's counters, and of how they are read."""

import pytest

from multitree.nic.control.counters import PortCounters
from multitree.nic.driver.commands import PortCounts, count_addresses, counts_of, sum_of
from multitree.nic.driver.registers import PORT_COUNTERS, PORT_WINDOW
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL

EVENTS = ("sent", "received", "dependency", "credit", "memory", "sibling", "forwarded")
LOW = 6
"""Which counter keeps the least credits."""
ANEW = [0] * LOW + [SMALL.buffer_flits, 0]


@pytest.mark.parametrize("seed", range(3))
@simulation_of(lambda: PortCounters(SMALL))
async def test_events_of_a_running_collective_are_counted_and_the_least_credits_kept(
    ctx, block, seed
):
    rng = seeded(seed)
    counts, starts, before, running = ANEW, 0, None, 0
    for _ in range(600):
        # A start comes only while nothing runs; what came in the last cycle of the collective
        # before it counts no more.
        start = not running and rng.random() < 0.2
        running = running and rng.random() < 0.97 if not start else 0
        started, starts = before and before[0], starts + start
        running = 1 if started else running
        activity = {name: rng.getrandbits(1) for name in EVENTS}
        credits = rng.randrange(SMALL.buffer_flits + 1) if rng.random() < 0.1 else 16
        put(ctx, block, start=start, running=running)
        put(ctx, block.activity, **activity, credits=credits)
        await ctx.tick()
        if start:
            counts = ANEW
        elif before is not None and before[1]:
            least = min(counts[LOW], before[3])
            events = [*counts[:LOW], *counts[LOW + 1 :]]
            events = [count + bit for count, bit in zip(events, before[2], strict=True)]
            counts = [*events[:LOW], least, *events[LOW:]]
        assert [ctx.get(count) for count in block.counts] == counts
        before = start, running, list(activity.values()), credits
    assert starts > 3


@simulation_of(lambda: PortCounters(SMALL))
async def test_before_the_first_collective_nothing_is_counted_and_all_credits_are_left(ctx, block):
    put(ctx, block.activity, **dict.fromkeys(EVENTS, 1), credits=3)
    await ctx.tick().repeat(4)
    assert [ctx.get(count) for count in block.counts] == ANEW


def test_counters_are_read_port_by_port_in_the_order_of_their_registers():
    addresses = count_addresses(range(3))
    assert addresses == [0x100 + 0x40 * port + 4 * word for port in range(3) for word in range(8)]
    assert [register.name for register in PORT_WINDOW.registers] == list(PORT_COUNTERS)
    ports = counts_of([address & 0xFF for address in addresses])
    assert ports[1] == PortCounts(*range(0x40, 0x60, 4))
    named = [name.replace("_cycles", "").upper() for name in PortCounts.__dataclass_fields__]
    assert named == list(PORT_COUNTERS)
    assert counts_of([]) == ()


def test_ports_together_are_sums_and_the_least_credits():
    parts = [PortCounts(1, 2, 3, 4, 5, 6, 9, 7), PortCounts(10, 20, 30, 40, 50, 60, 8, 70)]
    assert sum_of(parts) == PortCounts(11, 22, 33, 44, 55, 66, 8, 77)
    with pytest.raises(ValueError, match="Ports must be at least one, not none"):
        sum_of([])
