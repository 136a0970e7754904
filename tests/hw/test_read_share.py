"""Tests of a read channel with two readers: each gets what it asked for."""

import pytest

from multitree.hw.memory_channel import ReadShare
from tests.hw.streams import PATTERNS, Clock, go, process, put, run, seeded, simulation_of
from tests.nic.memory import latencies, reader

DEPTH = 6


@pytest.mark.parametrize("stall", PATTERNS)
def test_each_reader_gets_its_data_in_order_and_an_offer_stays_until_it_is_taken(stall):
    rng = seeded(stall)
    block = ReadShare(address_width=8, flit_bytes=2, depth=DEPTH)
    memory = [rng.getrandbits(16) for _ in range(256)]
    asked = [[rng.randrange(256) for _ in range(60)] for _ in range(2)]
    got, taken = ([], []), []

    @process
    async def asks(ctx, number, channel):
        moves, left, offers = go("often", f"{stall} {number}"), list(asked[number]), False
        while len(got[number]) < 60:
            pending = 60 - len(left) - len(got[number])
            offers = offers or (bool(left) and pending < DEPTH // 2 and next(moves))
            put(ctx, channel, valid=offers, address=left[0] if offers else 0)
            values = channel.ready, channel.data_valid, channel.data
            _, _, ready, valid, data = await ctx.tick().sample(*values)
            got[number].extend([data] if valid else [])
            if offers and ready:
                left.pop(0)
                offers = False

    async def watch(ctx):
        clock, offered = Clock(ctx), None
        while min(map(len, got)) < 60:
            channel = block.channel
            valid, ready, address = await clock.tick(channel.valid, channel.ready, channel.address)
            assert offered is None or (valid, address) == (1, offered)
            offered = address if valid and not ready else None

    behind = [reader(block.channel, memory, latency=latencies(rng, 5), stall=stall, taken=taken)]
    ends = [asks(0, block.first), asks(1, block.second)]
    run(block, *ends, watch, background=behind)
    assert got == tuple([memory[address] for address in mine] for mine in asked)
    assert len(taken) == 120


@simulation_of(lambda: ReadShare(address_width=8, flit_bytes=2, depth=DEPTH))
async def test_the_first_reader_goes_before_the_second(ctx, block):
    for channel in (block.first, block.second):
        ctx.set(channel.valid, 1)
    ctx.set(block.channel.ready, 1)
    for _ in range(4):
        *_, first, second = await ctx.tick().sample(block.first.ready, block.second.ready)
        assert (first, second) == (1, 0)
