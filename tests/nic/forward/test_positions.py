"""Tests of the ring: a flit is kept until enough others have followed."""

import pytest

from multitree.nic.forward.positions import RecentWrites
from tests.hw.streams import PATTERNS, go, put, seeded, simulation_of
from tests.nic.forward.ports import FORWARDING, encoded

SIZE = FORWARDING.forward_flits


@pytest.mark.parametrize("pattern", PATTERNS)
@simulation_of(lambda: RecentWrites(FORWARDING, num_readers=3))
async def test_every_reader_finds_each_of_the_last_flits_at_its_position(ctx, block, pattern):
    rng, moves = seeded(pattern), go(pattern, 1)
    flits, checked = [], 0
    asked, seen, is_late = [], 0, False
    for _ in range(400):
        for reader, position in enumerate(asked):
            if len(flits) - position < SIZE:
                assert ctx.get(block.kept[reader]) == encoded(flits[position])
                checked += 1
        written = ctx.get(block.positions.written)
        assert written == len(flits) + is_late
        # What is put a cycle later counts already; what is passed on counts when it is put.
        coming, passes = next(moves), not is_late and rng.random() < 0.3
        puts, flit = is_late or (coming and passes), rng.getrandbits(64)
        put(ctx, block, coming=coming, put=puts, payload=flit)
        # Positions are looked at a cycle before they are asked for.
        oldest = max(seen - SIZE + 2, 0)
        asked = [rng.randrange(oldest, seen) for _ in range(3)] if seen > oldest else []
        for reader, position in enumerate(asked):
            ctx.set(block.addresses[reader], position % SIZE)
        await ctx.tick()
        flits.extend([flit] if puts else [])
        is_late, seen = coming and not passes, written
    assert checked > 100


@simulation_of(lambda: RecentWrites(FORWARDING, num_readers=1))
async def test_positions_begin_at_0_when_no_collective_runs_and_count_acknowledgements(ctx, block):
    for puts, ack, clear, written, acknowledged in (
        (1, 0, 0, 1, 0),
        (1, 1, 0, 2, 1),
        (0, 1, 0, 2, 2),
        (1, 0, 1, 0, 0),
        (1, 0, 0, 1, 0),
    ):
        put(ctx, block, coming=puts, ack=ack, clear=clear)
        await ctx.tick()
        assert ctx.get(block.positions.written) == written
        assert ctx.get(block.positions.acknowledged) == acknowledged
