"""Tests of duplicate filter and snapshot: each message once, settings that hold."""

from dataclasses import replace

import pytest

from multitree.nic.control.register_file import OF_THE_TABLE, Snapshot, writable
from multitree.nic.receive.duplicate_filter import DuplicateFilter
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL

PLACES = [(op, flow) for op in range(2) for flow in range(SMALL.num_flows)]


@pytest.mark.parametrize("seed", range(3))
@simulation_of(lambda: DuplicateFilter(SMALL))
async def test_a_message_is_seen_exactly_if_it_was_marked_in_this_collective_and_bank(
    ctx, duplicates, seed
):
    """As in hardware: every expected message is marked in every collective of its table."""
    rng = seeded(seed)

    async def is_seen(place):
        put(ctx, duplicates, op=place[0], flow=place[1])
        await ctx.tick().repeat(2)
        return ctx.get(duplicates.seen)

    phase = bank = 0
    for table in range(6):
        expected = rng.sample(PLACES, rng.randrange(1, len(PLACES)))
        for collective in range(rng.randrange(1, 4)):
            put(ctx, duplicates, phase=phase, bank=bank)
            # The next table's bank is cleared while this one marks.
            swept = rng.randrange(len(expected)) if collective == 0 else None
            for number, place in enumerate(rng.sample(expected, len(expected))):
                ctx.set(duplicates.clear, number == swept)
                assert not await is_seen(place)
                put(ctx, duplicates, clear=0, mark=1)
                await ctx.tick()
                ctx.set(duplicates.mark, 0)
                assert await is_seen(place)
            for place in PLACES:
                assert await is_seen(place) == (place in expected), (table, place)
            phase = 1 - phase
        await ctx.tick().repeat(2 * SMALL.num_flows)
        bank = 1 - bank


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("seed", range(2))
@simulation_of(lambda width: DuplicateFilter(replace(SMALL, wave_width=width)))
async def test_the_waves_of_a_message_come_in_order_and_each_once_in_every_collective(
    ctx, duplicates, seed, width
):
    """An earlier one, or the same, was seen; one behind the next is early."""
    rng = seeded(seed)

    async def asked(place, wave):
        put(ctx, duplicates, op=place[0], flow=place[1], wave=wave)
        await ctx.tick().repeat(2)
        return ctx.get(duplicates.seen), ctx.get(duplicates.early)

    expected = rng.sample(PLACES, 5)
    for collective in range(6):
        put(ctx, duplicates, phase=collective % 2)
        known = dict.fromkeys(expected, -1)
        num_waves = rng.randrange(1, (1 << width) + 1)
        while any(wave < num_waves - 1 for wave in known.values()):
            place = rng.choice(PLACES)
            wave = rng.randrange(1 << width)
            before = known.get(place, -1)
            found = (int(wave <= before), int(wave > before + 1))
            assert await asked(place, wave) == found, (place, wave, before)
            if place in known and wave == before + 1 and wave < num_waves:
                ctx.set(duplicates.mark, 1)
                await ctx.tick()
                ctx.set(duplicates.mark, 0)
                known[place] = wave


@simulation_of(lambda: Snapshot())
async def test_settings_follow_their_registers_until_a_collective_runs_and_a_tables_until_the_swap(
    ctx, snapshot
):
    rng = seeded(0)
    names = writable()
    expected = [0] * len(names)
    for _ in range(200):
        swap, held = rng.random() < 0.2, rng.random() < 0.5
        put(ctx, snapshot, swap=swap, held=held)
        for number, name in enumerate(names):
            value = rng.getrandbits(32)
            ctx.set(snapshot.settings[number], value)
            if swap if name in OF_THE_TABLE else not held:
                expected[number] = value
        await ctx.tick()
        assert [ctx.get(used) for used in snapshot.used] == expected
    assert set(OF_THE_TABLE) < set(names)
