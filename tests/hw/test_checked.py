"""Flipped bits of a queue's entry are reported when it leaves; nothing else is."""

import random

import pytest
from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.checked_queue import Checked
from multitree.hw.stream import Fifo, QuickFifo, Register
from tests.hw.streams import PATTERNS, go, run, send

WIDTH = 16


def struck(queue):
    """A class of queue in which `flips` are exclusive-ored to the entry in front."""

    class Struck(wiring.Component):
        flips = None

        def __init__(self, *, shape, **sizes):
            self._inner = queue(shape=shape, **sizes)
            type(self).flips = Signal(shape)
            payloads, members = stream.Signature(shape), self._inner.signature.members
            level = {"level": Out(members["level"].shape)} if "level" in members else {}
            super().__init__({"i": In(payloads), "o": Out(payloads), **level})

        def elaborate(self, platform):
            m = Module()
            m.submodules.inner = inner = self._inner
            m.d.comb += [
                inner.i.valid.eq(self.i.valid),
                inner.i.payload.eq(self.i.payload),
                self.i.ready.eq(inner.i.ready),
                self.o.valid.eq(inner.o.valid),
                self.o.payload.eq(inner.o.payload ^ self.flips),
                inner.o.ready.eq(self.o.ready),
            ]
            if "level" in self.signature.members:
                m.d.comb += self.level.eq(inner.level)
            return m

    return Struck


@pytest.mark.parametrize("stall", PATTERNS)
@pytest.mark.parametrize(
    ("queue", "sizes"), [(Register, {}), (Fifo, {"depth": 5}), (QuickFifo, {"depth": 5})]
)
def test_an_entry_is_reported_in_the_cycle_behind_exactly_if_one_or_three_bits_or_two_near_flipped(
    queue, sizes, stall
):
    rng = random.Random(f"{queue.__name__} {stall}")
    stand_in = struck(queue)
    block = Checked(stand_in, shape=WIDTH, **sizes)
    payloads = [rng.getrandbits(WIDTH) for _ in range(200)]
    reported, expected = [], []

    async def producer(ctx):
        await send(ctx, block.i, payloads, go("seldom", 1))

    async def strike(ctx):
        flips, moves, left = block._queue.flips, go(stall, 2), 0
        while left < len(payloads):
            bits = rng.sample(range(len(flips)), rng.choice([0, 0, 1, 3]))
            if rng.random() < 0.2:
                first = rng.randrange(len(flips) - 7)
                bits = [first, first + rng.randrange(1, 8)]
            pattern = sum(1 << bit for bit in bits)
            ready = next(moves)
            ctx.set(flips, pattern)
            ctx.set(block.o.ready, ready)
            _, _, valid = await ctx.tick().sample(block.o.valid)
            left += valid and ready
            expected.append(bool(valid and ready and pattern))
            reported.append(bool(ctx.get(block.state_error)))

    run(block, producer, strike)
    assert reported == expected and sum(expected) > 50
