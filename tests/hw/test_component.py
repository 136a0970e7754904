"""Tests of blocks' parameters and instances: one module for equal blocks."""

import re

import pytest
from amaranth import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import NO_INLINE
from multitree.hw.component import add_instances
from multitree.hw.export.verilog import generate
from tests.hw.streams import assert_refused, simulation_of


class Counter(wiring.Component):
    """Counts by a given step."""

    def __init__(self):
        super().__init__({"by": In(4), "count": Out(8), "nothing": Out(0)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.count.eq(self.count + self.by)
        return m


class Counters(wiring.Component):
    """Several, which count by one, two and so on, until they are reset."""

    def __init__(self, count, *, names=("counter",)):
        self.count, self.names = count, names
        super().__init__({"restart": In(1), "counts": Out(8).array(count)})

    def elaborate(self, platform):
        inner, m = Module(), Module()
        for name in self.names:
            counters = add_instances(inner, platform, name, self.count, Counter, reset=self.restart)
        for number, counter in enumerate(counters):
            inner.d.comb += [counter.by.eq(number + 1), self.counts[number].eq(counter.count)]
        m.submodules.inner = ResetInserter(self.restart)(inner)
        return m


@pytest.mark.parametrize("count", [1, 2, 7])
def test_equal_blocks_are_one_module_with_an_instance_each(count):
    text = generate(Counters(count), name="top")
    assert len(re.findall(r"^module \\top\.counter \(.*\); (.*)$", text, flags=re.M)) == 1
    assert text.count(NO_INLINE) == 1
    assert re.findall(r"^  \\top\.counter  (\w+) \($", text, flags=re.M) == [
        f"counter_{number}" for number in range(count)
    ]


@simulation_of(lambda: Counters(3))
async def test_elsewhere_each_is_a_block_of_its_own_and_is_reset_from_outside(ctx, block):
    seen = []
    for cycle in range(6):
        ctx.set(block.restart, cycle == 3)
        seen.append([ctx.get(count) for count in block.counts])
        await ctx.tick()
    assert seen == [[k * n for n in (1, 2, 3)] for k in (0, 1, 2, 3, 0, 1)]


def test_an_instance_is_reset_by_its_domain_and_by_what_resets_the_blocks_around_it():
    """Amaranth's `ResetInserter` does not reach into instances."""
    text = generate(Counters(2), name="top")
    resets = re.findall(r"^    \.rst\((.*?)\s*\)", text, flags=re.M)
    for reset in resets[-2:]:
        driver = re.search(rf"assign {re.escape(reset)} += (.*);", text)
        assert driver, reset
        assert set(re.split(r" *[|] *", driver[1])) == {"rst", "restart"}


def test_two_kinds_of_block_with_one_name_are_refused():
    message = "A name of equal components must be used once, not twice: 'top.counter'"
    block = Counters(2, names=("counter", "counter"))
    assert_refused(generate, ValueError, message, block, name="top")


def test_the_text_of_a_design_holds_each_module_once():
    text = generate(Counters(5), name="top")
    names = re.findall(r"^module (\S+)", text, flags=re.M)
    assert sorted(set(names)) == sorted(names) and len(names) == 3
