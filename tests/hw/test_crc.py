"""The CRC network equals zlib's CRC-32, however many bytes it takes at a time."""

import zlib

import pytest
from amaranth import Const, Module, Signal

from multitree.hw.crc import CRC32_INIT, _common_sums, _effects, crc32_step
from tests.hw.streams import assert_refused, run, run_without_clock, seeded


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("num_bytes", [1, 2, 4, 8, 17])
def test_words_taken_one_after_the_other_give_the_crc_of_their_bytes(num_bytes, shared):
    rng = seeded(num_bytes)
    m, data, state = Module(), Signal(8 * num_bytes), Signal(32, init=CRC32_INIT)
    m.d.sync += state.eq(crc32_step(state, data, sums=m if shared else None))

    async def bench(ctx):
        content = b""
        for _ in range(20):
            word = rng.randbytes(num_bytes)
            content += word
            ctx.set(data, int.from_bytes(word, "little"))
            await ctx.tick()
            assert ctx.get(state) ^ 0xFFFFFFFF == zlib.crc32(content)

    run(m, bench)


@pytest.mark.parametrize("num_bytes", [1, 4, 17])
def test_what_is_built_and_what_is_emulated_are_the_same_function(num_bytes):
    # Both are sums of input bits, and so the same if they are for each bit alone.
    m, inputs, same = Module(), Signal(32 + 8 * num_bytes), Signal()
    looked_up, summed = (crc32_step(inputs[:32], inputs[32:], sums=sums) for sums in (None, m))
    zeros = Const(0, 8 * num_bytes)
    of_register = crc32_step(inputs[:32], zeros) == crc32_step(inputs[:32], zeros, sums=m)
    m.d.comb += same.eq((looked_up == summed) & of_register)

    async def bench(ctx):
        for pattern in (0, *(1 << bit for bit in range(len(inputs)))):
            ctx.set(inputs, pattern)
            assert ctx.get(same), f"{pattern:x}"

    run_without_clock(m, bench)


@pytest.mark.parametrize(("width", "share"), [(32, 0.67), (136, 0.5)])
def test_sums_in_common_take_half_the_tables_that_each_bit_alone_would(width, share):
    sums, rows = _common_sums(_effects(width))
    alone = sum(-(-(sum(e >> bit & 1 for e in _effects(width)) - 1) // 3) for bit in range(32))
    assert all(2 <= len(members) <= 4 for members in sums)
    assert len(sums) + sum(-(-(len(row) - 1) // 3) for row in rows) < share * alone


@pytest.mark.slow
def test_widths_that_are_no_whole_bytes_and_states_of_other_widths_are_refused():
    for width in (0, 7, 33):
        message = f"CRC data must be of whole bytes, not {width} bits"
        assert_refused(crc32_step, ValueError, message, Signal(32), Signal(width))
    message = "CRC state must be of 32 bits, not 31"
    assert_refused(crc32_step, ValueError, message, Signal(31), Signal(8))
