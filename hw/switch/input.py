"""One virtual channel of a switch's input: follows each message from head to tail."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import parity_of, parity_width
from multitree.hw.codes import HOP_WIDTH, PORT_WIDTH, check_integer, vc_width
from multitree.hw.link.link import Kind, check_num_vcs, unit_layout

__all__ = ["SwitchInput"]


def _is_first(kind):
    """The flit begins a message."""
    return (kind == Kind.HEAD) | (kind == Kind.SINGLE)


def _is_last(kind):
    """The flit ends one."""
    return (kind == Kind.TAIL) | (kind == Kind.SINGLE)


class SwitchInput(wiring.Component):
    """Reads the lowest hop of each head's route, and passes the message on when it has a channel.

    A head asks for a virtual channel of the output port that its hop names: twice the hop's class,
    plus the parity of the channel it came on. When it is granted, the message's flits are offered
    to its tail, the head's with the route shifted down by one hop. A head whose output does not
    exist or is the port it came in on has a route to nowhere; it is taken with all that belongs
    to it, and so is a message without a head. A head waits for an output whose link has not been
    up yet; for one whose link is lost it is taken likewise, and so is the rest of a message that
    is cut. A head in the middle of a message ends that without a tail and is a message itself.
    When the link it comes in on is lost the message ends, too.

    Latency 1 cycle from `i` to `o` for a head that is granted in the cycle in which it comes and
    for all behind it; one flit per cycle. Messages on one channel are at least a cycle apart. What
    is offered is a register.

    Parameters
    ----------
    port, vc : int
        The port and virtual channel whose flits come in.
    num_ports, num_vcs, flit_bytes, route_offset, num_hops : int
        As of `Switch`.

    Members
    -------
    i, o : In, Out(stream.Signature(StructLayout))
        Flits that came in, and those of the message that is granted: `kind` and `payload`.
    lost : In(1)
        Strobe: the link they come in on goes down, or is at fault.
    gone : In(num_ports)
        Per port: its link was up and is not.
    request, to_port, to_vc : Out
        A head waits to be granted; the output port and virtual channel it asks for.
    granted : In(1)
        Its message has them from the next cycle on.
    drops : Out(1)
        The message that has them ends without a tail.
    route_error, framing_error : Out(1)
        Strobe: a head's route leads nowhere; a flit has no head before it, or a message no tail.
    message_lost, lost_port : Out(1), Out(PORT_WIDTH)
        Strobe: a message ends since a link is lost; that link's port.
    state_error : Out(1)
        Strobe: bits of the flit that left in the cycle before have flipped.
    """

    def __init__(
        self,
        *,
        num_ports: int,
        num_vcs: int,
        flit_bytes: int,
        route_offset: int,
        num_hops: int,
        port: int,
        vc: int,
    ):
        self.num_ports = check_integer("Ports", num_ports, least=2, most=1 << PORT_WIDTH)
        self.num_vcs = check_num_vcs(num_vcs, least=2)
        self._offset = check_integer("Route offset", route_offset, least=0)
        self._end = route_offset + HOP_WIDTH * check_integer("Hops", num_hops, least=1)
        check_integer("Flit bits", 8 * flit_bytes, least=self._end)
        self.port = check_integer("Port", port, least=0, most=num_ports - 1)
        self._parity = check_integer("VC", vc, least=0, most=num_vcs - 1) % 2
        flits = stream.Signature(unit_layout(flit_bytes=flit_bytes))
        strobes = ("drops", "route_error", "framing_error", "message_lost", "state_error")
        self.flit_bytes, self.route_offset, self.num_hops, self.vc = (
            flit_bytes,
            route_offset,
            num_hops,
            vc,
        )
        super().__init__(
            {
                "i": In(flits),
                "lost": In(1),
                "gone": In(num_ports),
                "o": Out(flits),
                "request": Out(1),
                "to_port": Out(PORT_WIDTH),
                "to_vc": Out(vc_width(num_vcs)),
                "granted": In(1),
                **{name: Out(1) for name in strobes},
                "lost_port": Out(PORT_WIDTH),
            }
        )

    def elaborate(self, platform):
        """One state machine: ROUTE the head, CARRY the message, or SINK what goes nowhere."""
        m = Module()
        unit, held = self.i.payload, Signal(self.o.payload.shape(), reset_less=True)
        first, exists = _is_first(unit.kind), Signal()
        target, full = Signal(PORT_WIDTH), Signal()
        ends = full & _is_last(held.kind)
        m.d.comb += self.o.payload.eq(held)
        self._hold(m, held, unit, first)
        self._read_hop(m, unit.payload, exists)
        with m.FSM():
            with m.State("ROUTE"):
                # The target is kept for the whole message: only the head names it.
                m.d.sync += [target.eq(self.to_port), full.eq(self.granted)]
                m.d.comb += self.lost_port.eq(Mux(self.lost, self.port, self.to_port))
                gone = self.gone.bit_select(self.to_port, 1)
                with m.If(self.lost):
                    m.d.comb += self.message_lost.eq(self.i.valid)
                # A port whose link was never up is not `gone`: the message waits for that link.
                with m.Elif(self.i.valid & first & exists & ~gone):
                    m.d.comb += [self.request.eq(1), self.i.ready.eq(self.granted)]
                    with m.If(self.granted):
                        m.next = "CARRY"
                with m.Elif(self.i.valid):
                    m.d.comb += [
                        self.i.ready.eq(1),
                        self.framing_error.eq(~first),
                        self.route_error.eq(first & ~exists),
                        self.message_lost.eq(first & exists),
                    ]
                    # The rest of the message follows and has to be taken, too.
                    with m.If(~_is_last(unit.kind)):
                        m.next = "SINK"
            with m.State("CARRY"):
                gone = self.gone.bit_select(target, 1)
                # Only once `held` is empty: the flits before the cut are in order and leave first.
                cut = ~full & self.i.valid & first
                m.d.comb += self.lost_port.eq(Mux(self.lost, self.port, target))
                with m.If(self.lost | gone | cut):
                    # No tail will free the output's channel: `drops` does.
                    m.d.comb += [self.drops.eq(1), self.message_lost.eq(self.lost | gone)]
                    m.d.comb += self.framing_error.eq(~self.lost & ~gone)
                    m.d.sync += full.eq(0)
                    m.next = "SINK"
                with m.Else():
                    m.d.comb += self.o.valid.eq(full)
                    # Nothing is taken behind a tail: what follows is a head, which ROUTE handles.
                    m.d.comb += self.i.ready.eq((self.o.ready | ~full) & ~ends & ~first)
                    with m.If(self.o.ready | ~full):
                        m.d.sync += full.eq(self.i.valid & self.i.ready)
                    with m.If(self.o.ready & ends):
                        m.next = "ROUTE"
            with m.State("SINK"):
                # What begins a message is not of the one that is dropped, however that ended.
                m.d.comb += self.i.ready.eq(~first)
                with m.If(self.i.valid & (first | _is_last(unit.kind))):
                    m.next = "ROUTE"
        return m

    def _hold(self, m, held, unit, first):
        """Keep a flit with its parity, which is looked at where it goes."""
        word, stored = held.as_value(), Signal.like(held)
        m.d.comb += [
            stored.kind.eq(unit.kind),
            stored.payload.eq(Mux(first, self._shifted(unit.payload), unit.payload)),
        ]
        parity = Signal(parity_width(len(word)), reset_less=True)
        left, syndrome = Signal(), Signal.like(parity)
        with m.If(self.i.ready):
            m.d.sync += [held.eq(stored), parity.eq(parity_of(stored.as_value()))]
        m.d.sync += [left.eq(self.o.valid & self.o.ready), syndrome.eq(parity_of(word) ^ parity)]
        m.d.comb += self.state_error.eq(left & syndrome.any())

    def _read_hop(self, m, payload, exists):
        """Where the head at hand wants to go, and whether there is such a place."""
        hop = payload[self._offset : self._offset + HOP_WIDTH]
        port, vc_class = hop[:PORT_WIDTH], hop[PORT_WIDTH:]
        m.d.comb += [
            self.to_port.eq(port),
            # The parity stays: messages of two collectives never share a channel.
            self.to_vc.eq(Cat(Const(self._parity, 1), vc_class)),
            exists.eq(
                (port < self.num_ports)
                & (port != self.port)
                & (Cat(Const(self._parity, 1), vc_class) < self.num_vcs)
            ),
        ]

    def _shifted(self, payload):
        left = payload[self._offset + HOP_WIDTH : self._end]
        return Cat(payload[: self._offset], left, Const(0, HOP_WIDTH), payload[self._end :])
