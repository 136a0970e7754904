"""Tests of a count that says early when it ends."""

import random

import pytest
from amaranth import Elaboratable, Module, Signal

from multitree.hw.countdown import counted_down
from tests.hw.streams import run


class Bench(Elaboratable):
    """A count with its inputs and outputs."""

    def __init__(self):
        self.load, self.step, self.amount = Signal(), Signal(), Signal(4)
        self.said = Signal(6)

    def elaborate(self, platform):
        """Count, and say all of it."""
        m = Module()
        left, some, last = counted_down(m, load=self.load, amount=self.amount, step=self.step)
        m.d.comb += self.said.eq(left << 2 | some << 1 | last)
        return m


@pytest.mark.parametrize("seed", range(4))
def test_it_counts_what_was_loaded_and_says_whether_some_or_one_is_left(seed):
    print(f"seed {seed}")
    bench, rng = Bench(), random.Random(seed)

    async def drive(ctx):
        left = 0
        for _ in range(400):
            assert ctx.get(bench.said) == left << 2 | (left > 0) << 1 | (left == 1)
            load, amount = rng.random() < 0.2, rng.randrange(16)
            step = left > 0 and rng.random() < 0.7
            ctx.set(bench.load, load)
            ctx.set(bench.amount, amount)
            ctx.set(bench.step, step)
            left = amount if load else left - step
            await ctx.tick()

    run(bench, drive)
