"""Twins agree with their registers, and tell of each bit that flips."""

import pytest
from amaranth import Array, Cat, Module, ResetInserter, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.twins import Twins
from tests.hw.streams import Clock, put, run, seeded


class Registers(wiring.Component):
    """Registers set whole, in part, by index, and in a state machine."""

    a: In(4)
    b: In(4)
    c: Out(8, init=5)
    partly: Out(data.StructLayout({"x": 4, "y": 4}))
    signed: Out(signed(6))
    one: Out(4)
    few: Out(wiring.Signature({"k": Out(3)})).array(4)

    def elaborate(self, platform):
        """Two states."""
        m = Module()
        s = self.one
        m.d.comb += self.partly.y.eq(self.a ^ 3)
        m.d.sync += [
            self.partly.x.eq(self.partly.y + s),
            Cat(s[:2], self.c[6:]).eq(self.a),
            s[2:].eq(self.c + self.b),
            self.signed.eq(self.signed - self.b.as_signed()),
            Array(each.k for each in self.few)[self.b[:2]].eq(self.a + 1),
            s.bit_select(self.b[:2], 2).eq(self.a),
        ]
        with m.FSM():
            with m.State("COUNT"):
                m.d.sync += self.c[:6].eq(self.c + 1)
                with m.If(self.a == 5):
                    m.next = "TAKE"
            with m.State("TAKE"):
                m.d.sync += self.c[:6].eq(self.b)
                with m.If(self.a == 3):
                    m.next = "COUNT"
        return m


def played(strike, but=()):
    """Random inputs and resets; `strike` is called with registers and cycle, and then what says
    whether they differ.
    """
    rng, block, reset = seeded(1), Registers(), Signal()
    twins = Twins(block, but=[getattr(block, name) for name in but])

    async def bench(ctx):
        clock = Clock(ctx)
        for cycle in range(600):
            put(ctx, block, a=rng.randrange(16), b=rng.randrange(16))
            ctx.set(reset, strike is None and rng.random() < 0.05)
            if strike is not None and cycle % 20 == 19:
                told = strike(ctx, block, rng)
                await clock.tick()
                await clock.tick()
                assert ctx.get(twins.state_error) == told
                ctx.set(reset, 1)
                for _ in range(3):
                    await clock.tick()
                continue
            await clock.tick()
            assert not ctx.get(twins.state_error)

    run(ResetInserter(reset)(twins), bench)


def test_no_twin_differs_where_no_bit_flips():
    played(None)


@pytest.mark.parametrize("name", ["c", "one", "signed", "few"])
def test_each_bit_that_flips_is_told_unless_its_register_has_no_twin(name):
    def strike(ctx, block, rng):
        register = getattr(block, name)
        register = register[rng.randrange(4)].k if name == "few" else register
        value = ctx.get(register)
        ctx.set(register, ~value if name == "signed" else value ^ 1 << rng.randrange(len(register)))
        return not but

    for but in ((), ("c", "one", "signed")):
        if not but or name in but:
            played(strike, but)
