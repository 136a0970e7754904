"""The CRC network equals zlib's CRC-32, however many bytes it takes at a time."""

import random
import zlib

import pytest
from amaranth import Module, Signal
from amaranth.sim import Simulator

from multitree.hw.crc import CRC32_INIT, crc32_step
from tests.hw.streams import assert_refused


@pytest.mark.parametrize("num_bytes", [1, 2, 4, 8, 16])
def test_words_taken_one_after_the_other_give_the_crc_of_their_bytes(num_bytes):
    print(f"seed {num_bytes}")
    rng = random.Random(num_bytes)
    m, data, state = Module(), Signal(8 * num_bytes), Signal(32, init=CRC32_INIT)
    m.d.sync += state.eq(crc32_step(state, data))

    async def bench(ctx):
        content = b""
        for _ in range(20):
            word = rng.randbytes(num_bytes)
            content += word
            ctx.set(data, int.from_bytes(word, "little"))
            await ctx.tick()
            assert ctx.get(state) ^ 0xFFFFFFFF == zlib.crc32(content)

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.slow
def test_widths_that_are_no_whole_bytes_and_states_of_other_widths_are_refused():
    for width in (0, 7, 33):
        message = f"CRC data must be of whole bytes, not {width} bits"
        assert_refused(
            lambda width=width: crc32_step(Signal(32), Signal(width)), ValueError, message
        )
    message = "CRC state must be of 32 bits, not 31"
    assert_refused(lambda: crc32_step(Signal(31), Signal(8)), ValueError, message)
