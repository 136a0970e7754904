"""A count that says early when it ends: compared before registers, not behind."""

from amaranth import Module, Signal, Value

__all__ = ["counted_down"]


def counted_down(
    m: Module, *, load: Value, amount: Value, step: Value
) -> tuple[Signal, Signal, Signal]:
    """Count down from what was loaded; all that is said of the count is in registers.

    A comparison of a wide count with 0 or 1 takes some levels of logic, and a handshake waits for
    it where a queue's end depends on it. So the next count is compared instead.

    Parameters
    ----------
    m : Module
    load : Value
        Strobe: begin with `amount`, whatever is left.
    amount : Value
        How many.
    step : Value
        Strobe: one less; only while some are left.

    Returns
    -------
    tuple of Signal
        How many are left; whether some are; whether exactly one is. Registers, 0 at first.
    """
    left, some, last = Signal(len(amount)), Signal(), Signal()
    with m.If(load):
        m.d.sync += [left.eq(amount), some.eq(amount != 0), last.eq(amount == 1)]
    with m.Elif(step):
        m.d.sync += [left.eq(left - 1), some.eq(~last), last.eq(left == 2)]
    return left, some, last
