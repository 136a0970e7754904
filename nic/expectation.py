"""Whether a message may come in on a port, and after which sibling."""

from amaranth import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.layouts import FLOW_ENTRY

__all__ = ["Expectation"]

_OP_GATHER = 1


class Expectation(wiring.Component):
    """Holds a head against the flow memory's entry: is it expected here, and after whom?

    Combinational. A REDUCE is expected on a port that is among the flow's children, after the
    child before it in the order of summation; a GATHER on the flow's parent port. A head without
    payload is expected exactly for a flow of size 0.

    Parameters
    ----------
    port : int
        The port the message came in on.

    Members
    -------
    entry : In(FLOW_ENTRY)
        The flow's entry.
    op, single : In(1)
        Of the head.
    expected : Out(1)
        The message may come in on this port.
    after : Out(1)
        It has to wait for a sibling.
    sibling : Out(4)
        The port that sibling comes in on.
    """

    def __init__(self, *, port: int):
        if not 0 <= port < 8:
            raise ValueError(f"Expectation port must be in 0..7, not {port!r}")
        self._port = port
        super().__init__(
            {
                "entry": In(FLOW_ENTRY),
                "op": In(1),
                "single": In(1),
                "expected": Out(1),
                "after": Out(1),
                "sibling": Out(4),
            }
        )

    def elaborate(self, platform):
        """Compare the port with every child, the earlier sibling being the one before."""
        m = Module()
        children = self.entry.children
        is_child = Cat(children[k] == self._port for k in range(8))
        with m.If(self.op == _OP_GATHER):
            m.d.comb += self.expected.eq(
                (self.entry.parent == self._port) & (self.single == (self.entry.size == 0))
            )
        with m.Else():
            m.d.comb += [
                self.expected.eq(is_child.any() & (self.single == (self.entry.size == 0))),
                self.after.eq(is_child[1:].any()),
            ]
        for k in range(1, 8):
            with m.If(is_child[k]):
                m.d.comb += self.sibling.eq(children[k - 1])
        return m
