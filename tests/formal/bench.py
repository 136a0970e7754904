"""What a property is made of: free inputs, assumptions, checks, a block, covers."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from unittest.mock import patch

from amaranth import ClockDomain, Const, Module, Mux, Signal
from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, Fragment

__all__ = ["HELD", "Bench", "Watch", "driven", "holds", "plain", "sets", "steady"]


class Bench:
    """A module under construction whose free inputs are every environment there can be.

    The clock domain has no reset: the solver starts from the registers' initial values. All
    checks are one output of the netlist, so that a property is proved or refuted as a whole.

    Parameters
    ----------
    target : str
        "check" to look for a failing check, or the name of a cover to look for.
    """

    def __init__(self, target: str = "check"):
        self.m = Module()
        self._domain = ClockDomain("sync", reset_less=True)
        self.m.domains.sync = self._domain
        self._target = target
        self._inputs = []
        self._checks = []
        self._covers = {}
        self._replaced = []

    def free(self, name, shape=1):
        """An input that may have any value in any cycle."""
        signal = Signal(shape, name=name)
        self._inputs.append(signal)
        return signal

    def constant(self, name, shape=1):
        """Any value, but the same in every cycle."""
        given, kept = self.free(name, shape), Signal(shape, name=f"{name}_kept")
        value, first = Signal(shape, name=f"{name}_value"), Signal(init=1)
        self.m.d.sync += [first.eq(0), kept.eq(value)]
        self.m.d.comb += value.eq(Mux(first, given, kept))
        return value

    def past(self, value, *, init=0):
        """The value of the cycle before."""
        delayed = Signal.like(value, init=init, name="past")
        self.m.d.sync += delayed.eq(value)
        return delayed

    def assume(self, condition):
        """Only environments in which this always holds."""
        self.m.d.comb += Assume(condition.bool() if not isinstance(condition, bool) else 1)

    def check(self, condition):
        """This has to hold in every cycle."""
        self._checks.append(condition.bool())

    def cover(self, name, condition):
        """This has to be possible: a property that never applies proves nothing."""
        self._covers[name] = condition.bool()

    @property
    def covers(self):
        """Names of the covers."""
        return tuple(self._covers)

    def replace(self, target, stand_in):
        """Put something simpler in the place of a name while the netlist is made.

        The property has to hold for whatever the name stands for: its harness says why.
        """
        self._replaced.append((target, stand_in))

    def netlist(self):
        """The netlist as RTLIL, its one assertion being the target."""
        if self._target == "check":
            holds = Const(1)
            for check in self._checks:
                holds = holds & check
        else:
            # The search finds no assertion that has no register in its cone.
            reached = Signal()
            self.m.d.sync += reached.eq(self._covers[self._target])
            holds = ~reached
        self.m.d.comb += Assert(holds)
        with ExitStack() as stack:
            for replaced, stand_in in self._replaced:
                stack.enter_context(patch(replaced, stand_in))
            # Stand-ins are made with their blocks, and may have inputs of their own: one that is
            # no port of the netlist would be 0.
            whole = Fragment.get(self.m, None)
            ports = [self._domain.clk, *self._inputs]
            return rtlil.convert(whole, ports=ports, name="top", emit_src=False)


def driven(bench, name, stream):
    """Give a block's incoming stream any valid and any payload in every cycle."""
    payload = plain(stream.payload)
    bench.m.d.comb += [
        stream.valid.eq(bench.free(f"{name}_valid")),
        payload.eq(bench.free(f"{name}_payload", len(payload))),
    ]


def plain(payload):
    """A stream's payload as bits, whatever its shape is."""
    return payload.as_value() if hasattr(payload, "as_value") else payload


def steady(bench, valid, ready, payload):
    """Check that what is offered stays offered, unchanged, until it is taken."""
    waits = bench.past(valid & ~ready)
    bench.check(~waits | (valid & (payload == bench.past(payload))))


class Watch:
    """Follows one arbitrary payload through a queue, and counts what is in it.

    Checks that what comes out came in, in order, once and unchanged: the solver chooses the
    payload that is watched, so that what holds for it holds for all.

    Members: `held` (payloads inside), `left` (the watched one leaves in this cycle).

    Parameters
    ----------
    put, take : Value
        A payload goes in, one comes out.
    value_in, value_out : Value
        The payloads.
    capacity : int
        Never more are inside.
    """

    def __init__(self, bench, *, put, take, value_in, value_out, capacity, name="watch"):
        m = bench.m
        self.held = Signal(range(capacity + 2), name=f"{name}_held")
        ahead = Signal(range(capacity + 2), name=f"{name}_ahead")
        inside, seen = Signal(name=f"{name}_inside"), Signal(name=f"{name}_seen")
        value = Signal(len(value_in), name=f"{name}_value")
        self.entered, self.left = Signal(), Signal()
        self.inside, self.value = inside, value
        pick = bench.free(f"{name}_pick")
        m.d.comb += [
            self.entered.eq(put & pick & ~seen),
            self.left.eq(take & inside & (ahead == 0)),
        ]
        m.d.sync += self.held.eq(self.held + put - take)
        with m.If(self.entered):
            m.d.sync += [seen.eq(1), inside.eq(1), value.eq(value_in), ahead.eq(self.held - take)]
        with m.Elif(inside & take):
            m.d.sync += [ahead.eq(ahead - 1), inside.eq(ahead != 0)]
        bench.check(~take | (self.held != 0))
        bench.check(self.held <= capacity)
        bench.check(~self.left | (value_out == value))
        bench.cover(f"{name}_left", self.left)


@dataclass(frozen=True)
class Property:
    """A property of a block, in words and as a function that adds block, environment and checks.

    It holds for several parameter sets, the smallest first: proved without bound, or for `depth`
    cycles from reset. Tests search `quick_depth` cycles where that takes too long for them.
    """

    name: str
    claim: str
    build: Callable[..., None]
    sizes: tuple[dict[str, object], ...]
    depth: int | None = None
    quick_depth: int | None = None

    def bench(self, sizes, target="check"):
        """The bench for one parameter set."""
        bench = Bench(target)
        self.build(bench, **sizes)
        return bench


HELD: dict[str, Property] = {}
"""Properties of all modules that are loaded, by name."""


def sets(names, *values):
    """Parameter sets whose parameters have these names, the values of one set after the other."""
    return tuple(dict(zip(names.split(), each, strict=True)) for each in values)


def holds(name, *sizes, depth=None, quick_depth=None, claim=None):
    """Make a property of a function; what it claims is the first paragraph of its docstring."""

    def keep(build):
        words = claim or " ".join(build.__doc__.split("\n\n")[0].split()).rstrip(".")
        # Not the name of a channel, as in "AR steady".
        words = words if words[1].isupper() else words[0].lower() + words[1:]
        HELD[name] = Property(name, words, build, sizes, depth, quick_depth)
        return build

    return keep
