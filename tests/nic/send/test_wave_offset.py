"""Tests of where a wave's chunk begins, against whole numbers."""

import pytest

from multitree.nic.config import Config
from multitree.nic.send.wave_offset import WaveOffset
from tests.hw.streams import run
from tests.nic.blocks import put, seeded


@pytest.mark.parametrize(("address_width", "wave_width"), [(4, 1), (10, 3), (24, 11), (31, 1)])
def test_a_wave_begins_its_number_of_strides_behind_the_first_or_beyond_all_addresses(
    address_width, wave_width
):
    rng = seeded(address_width)
    block = WaveOffset(Config(address_width=address_width, wave_width=wave_width))
    end, reported = 1 << address_width, set()

    async def drive(ctx):
        for _ in range(400):
            wave, base = rng.randrange(1 << wave_width), rng.randrange(end)
            # Near the last address that there is, on either side.
            near = (end - base) // max(wave, 1) + rng.randrange(-2, 3)
            stride = min(max(rng.choice([near, rng.randrange(end)]), 0), end - 1)
            put(ctx, block, wave=wave, stride=stride, base=rng.randrange(end))
            await ctx.tick()
            # The next question is asked meanwhile.
            put(ctx, block, wave=rng.randrange(1 << wave_width), stride=rng.randrange(end))
            ctx.set(block.base, base)
            place = base + wave * stride
            assert ctx.get(block.beyond) == (place >= end)
            if place < end:
                assert ctx.get(block.address) == place
            reported.add((place >= end, wave > 0))

    run(block, drive)
    assert {(False, True), (True, True), (False, False)} <= reported
