"""Twins of short registers: inverted copies that have to agree with the first."""

from collections.abc import Collection, Iterable, Iterator

from amaranth import Cat, Elaboratable, Fragment, Instance, Signal, Value
from amaranth.hdl import Const, MemoryInstance
from amaranth.hdl._ast import Assign, Part, Switch, SwitchValue
from amaranth.hdl._xfrm import LHSMaskCollector, StatementTransformer, ValueTransformer

from multitree.hw.check_bits import Checked
from multitree.hw.lanes import LaneUnit

__all__ = ["Twins", "with_twins"]

_APART = (Checked, LaneUnit)
"""Components whose state has check bits, or none since it is being added."""
MOST_BITS = 8
"""Of a register with a twin: states, handshakes and short counts. Addresses, positions and settings
are wider: twins of all would take half as many LUTs again, of these 3 %.
"""


class Twins(Elaboratable):
    """A component whose short registers that are reset, and all of those below, have twins.

    A twin gets what its register gets, inverted, by logic of its own: from the twins of the
    component's registers, and what is combinational. A bit that flips in either is reported
    whether it is in use or not. Queues with check bits are left alone, and so are data that count
    only with a register that is reset.

    Latency 2 cycles from a flip to `state_error`.

    Parameters
    ----------
    component : Component
        What is elaborated in its place.
    but : Iterable[Signal]
        Registers that get no twin.

    Members
    -------
    state_error : Out(1)
        A register and its twin differ.
    """

    def __init__(self, component, *, but: Iterable[Signal] = ()):
        self.component, self.but = component, but
        self.state_error = Signal()

    def elaborate(self, platform):
        return with_twins(self.component, platform, self.state_error, self.but)


def with_twins(
    component: Elaboratable, platform, state_error: Signal, but: Iterable[Signal] = ()
) -> Fragment:
    """The fragment of a component with twins, which drives `state_error`, as `Twins` does."""
    fragment = Fragment.get(component, platform)
    differ = list(_added(fragment, {id(signal) for signal in but}))
    fragment.add_statements("sync", state_error.eq(Cat(differ).any()))
    return fragment


def _added(fragment: Fragment, but: Collection[int]) -> Iterator[Signal]:
    """Give a fragment and all below it twins; yields per fragment a register, that some differ."""
    is_apart = any(isinstance(origin, _APART) for origin in fragment.origins or ())
    if is_apart or isinstance(fragment, Instance | MemoryInstance):
        return
    for below, _, _ in fragment.subfragments:
        yield from _added(below, but)
    statements = fragment.statements.get("sync", [])
    driven = LHSMaskCollector()
    driven.visit_stmt(statements)
    chunks = [
        chunk
        for chunk in driven.chunks()
        if len(chunk[0]) <= MOST_BITS and not chunk[0].reset_less and id(chunk[0]) not in but
    ]
    if not chunks:
        return
    twins = {
        id(signal): Signal(
            len(signal), init=~signal.init & (1 << len(signal)) - 1, name=f"{signal.name}_twin"
        )
        for signal, _, _ in chunks
    }
    copies = _Copies(twins, _read(twins, chunks)).on_statements(statements)
    differs = Signal(name="differs")
    pairs = [signal[start:stop] ^ ~twins[id(signal)][start:stop] for signal, start, stop in chunks]
    fragment.add_statements("sync", *copies, differs.eq(Cat(pairs).any()))
    yield differs


def _read(twins: dict[int, Signal], chunks) -> dict[int, Value]:
    """What a register's twin stands for: bits that no clock sets are the register's own."""
    found = {}
    for signal, start, stop in chunks:
        before = found.get(id(signal), signal)
        parts = (before[:start], ~twins[id(signal)][start:stop], before[len(signal[:stop]) :])
        whole = Cat(*parts)
        found[id(signal)] = whole.as_signed() if signal.shape().signed else whole
    return found


class _Right(ValueTransformer):
    """What is read: of a register with a twin, that."""

    def __init__(self, read):
        self._read = read

    def on_Signal(self, value):  # noqa: N802 (Amaranth)
        return self._read.get(id(value), value)


class _Left(ValueTransformer):
    """What is assigned: the twin; a register without one is assigned elsewhere."""

    def __init__(self, twins, right):
        self._twins, self._right = twins, right

    def on_Signal(self, value):  # noqa: N802 (Amaranth)
        return self._twins.get(id(value), Signal.like(value, name="unused"))

    def on_Part(self, value):  # noqa: N802 (Amaranth)
        offset = self._right.on_value(value.offset)
        return Part(self.on_value(value.value), offset, value.width, value.stride)

    def on_SwitchValue(self, value):  # noqa: N802 (Amaranth)
        cases = [(patterns, self.on_value(case)) for patterns, case in value.cases]
        return SwitchValue(self._right.on_value(value.test), cases)


class _Copies(StatementTransformer):
    """The statements that set twins."""

    def __init__(self, twins, read):
        self._twins, self._right = twins, _Right(read)
        self._left = _Left(twins, self._right)

    def on_value(self, value):
        return self._right.on_value(value)

    def on_Assign(self, stmt):  # noqa: N802 (Amaranth)
        if not any(id(signal) in self._twins for signal in stmt.lhs._lhs_signals()):
            return []
        # As wide as what is assigned: bits above a narrower value are zeros, too.
        given = self._right.on_value(stmt.rhs) | Const(0, len(stmt.lhs))
        return Assign(self._left.on_value(stmt.lhs), ~given)

    def on_Switch(self, stmt):  # noqa: N802 (Amaranth)
        cases = [(patterns, self.on_statements(body), loc) for patterns, body, loc in stmt.cases]
        if not any(body for _, body, _ in cases):
            return []
        return Switch(self._right.on_value(stmt.test), cases)
