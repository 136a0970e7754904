"""What a property is made of: free inputs, assumptions, checks, a block, covers."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from unittest.mock import patch

from amaranth import Cat, ClockDomain, Const, Module, Mux, Signal, Value
from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, Fragment
from amaranth.lib.wiring import In

__all__ = ["HELD", "Bench", "Watch", "alike", "holds", "plain", "sets", "transfer"]


class Bench:
    """A module under construction whose free inputs are every environment there can be.

    The clock domain has no reset: the solver starts from the registers' initial values. All
    checks are one output of the netlist, so that a property is proved or refuted as a whole.
    The target is "check" to look for a failing check, or the name of a cover to look for.
    """

    def __init__(self, target: str = "check"):
        self._module = module = Module()
        # Properties write it as a block writes its module.
        self.d, self.submodules = module.d, module.submodules
        self.If, self.Elif, self.Else = module.If, module.Elif, module.Else
        self._domain = ClockDomain("sync", reset_less=True)
        module.domains.sync = self._domain
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
        self.d.sync += [first.eq(0), kept.eq(value)]
        self.d.comb += value.eq(Mux(first, given, kept))
        return value

    def one_of(self, count, name):
        """Any number below `count`, but the same in every cycle."""
        value = self.constant(name, range(max(count, 2)))
        self.assume(value < count)
        return value

    def drive(self, *ports):
        """Give what a block reads any value in any cycle: signals, parts of them, interfaces."""
        for value in _read_of(ports):
            self.d.comb += value.eq(self.free(_name(value), len(value)))

    def fix(self, *ports):
        """Give what a block reads any value, but the same in every cycle."""
        for value in _read_of(ports):
            self.d.comb += value.eq(self.constant(_name(value), len(value)))

    def past(self, value, cycles=1):
        """The value some cycles before; 0 in the first ones."""
        for _ in range(cycles):
            delayed = Signal.like(value, init=0, name="past")
            self.d.sync += delayed.eq(value)
            value = delayed
        return value

    def ever(self, condition):
        """Whether the condition held in a cycle before."""
        held = Signal()
        self.d.sync += held.eq(held | condition)
        return held

    def latch(self, when, value):
        """The value of the last cycle before in which the condition held."""
        kept = Signal(value.shape())
        with self.If(when):
            self.d.sync += kept.eq(value)
        return kept

    def tally(self, put, take, most):
        """How many were put and not yet taken, before this cycle: `most` and one more at most."""
        held = Signal(range(most + 2))
        self.d.sync += held.eq(held + put - take)
        return held

    def owed(self, asked, answered, most):
        """How many answers are owed; assume that none comes that is not."""
        owed = self.tally(asked, answered, most)
        self.assume(~answered | (owed != 0))
        return owed

    def lasts(self, condition, most):
        """Check that the condition holds for no more than `most` cycles on end; count them."""
        cycles = Signal(range(most + 2))
        self.d.sync += cycles.eq(Mux(condition, cycles + 1, 0))
        self.check(cycles <= most)
        return cycles

    def stays(self, valid, ready, shown, *, during=None):
        """Whether what was offered in the cycle before, and not taken, is offered still."""
        waits = self.past(valid & ~ready)
        if during is not None:
            waits &= during
        return ~waits | (valid & (shown == self.past(shown)))

    def patient(self, *streams):
        """Assume that what a stream offers stays until it is taken."""
        for offer in streams:
            self.assume(self.stays(offer.valid, offer.ready, plain(offer.payload)))

    def assume(self, condition):
        """Only environments in which this always holds."""
        self.d.comb += Assume(condition.bool() if not isinstance(condition, bool) else 1)

    def check(self, *conditions):
        """These have to hold in every cycle."""
        self._checks += [condition.bool() for condition in conditions]

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
            self.d.sync += reached.eq(self._covers[self._target])
            holds = ~reached
        self.d.comb += Assert(holds)
        with ExitStack() as stack:
            for replaced, stand_in in self._replaced:
                stack.enter_context(patch(replaced, stand_in))
            # Stand-ins are made with their blocks, and may have inputs of their own: one that is
            # no port of the netlist would be 0.
            whole = Fragment.get(self._module, None)
            ports = [self._domain.clk, *self._inputs]
            return rtlil.convert(whole, ports=ports, name="top", emit_src=False)


def _read_of(ports):
    """What a block reads of its ports, as bits: all of a signal, the inputs of an interface."""
    for port in ports:
        if hasattr(port, "signature"):
            leaves = port.signature.flatten(port)
            yield from (plain(leaf) for _, member, leaf in leaves if member.flow == In)
        else:
            yield plain(port)


def _name(value):
    return getattr(value, "name", "part")


def plain(payload):
    """A stream's payload as bits, whatever its shape is."""
    return Value.cast(payload)


def transfer(port):
    """Whether something moves through a port in this cycle."""
    return port.valid & port.ready


def alike(one, other, names):
    """Whether two records say the same of some fields."""
    return Cat(getattr(one, name) == getattr(other, name) for name in names.split()).all()


class Watch:
    """Follows one arbitrary payload through a queue, and counts what is in it.

    Something is put in and taken out: of both the condition and the payload are given. Checks that
    what comes out came in, in order, once and unchanged, and that never more than `capacity` are
    inside: the solver chooses the payload that is watched, so that what holds for it holds for all.

    Members: `held` (payloads inside), `left` (the watched one leaves in this cycle).
    """

    def __init__(self, m, put, take, *, capacity, name="watch"):
        (put, value_in), (take, value_out) = put, take
        self.held = m.tally(put, take, capacity)
        ahead = Signal(range(capacity + 2), name=f"{name}_ahead")
        inside, seen = Signal(name=f"{name}_inside"), Signal(name=f"{name}_seen")
        value = Signal(len(value_in), name=f"{name}_value")
        entered, self.left = Signal(), Signal()
        pick = m.free(f"{name}_pick")
        m.d.comb += [
            entered.eq(put & pick & ~seen),
            self.left.eq(take & inside & (ahead == 0)),
        ]
        with m.If(entered):
            m.d.sync += [seen.eq(1), inside.eq(1), value.eq(value_in), ahead.eq(self.held - take)]
        with m.Elif(inside & take):
            m.d.sync += [ahead.eq(ahead - 1), inside.eq(ahead != 0)]
        m.check(~take | (self.held != 0), self.held <= capacity)
        m.check(~self.left | (value_out == value))
        m.cover(f"{name}_left", self.left)


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
