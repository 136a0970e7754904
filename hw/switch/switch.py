"""A switch: source-routed wormhole with virtual channels, for several hops."""

from functools import partial

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.component import add_instances
from multitree.hw.link.link import LinkSignature
from multitree.hw.link.port import LinkPort
from multitree.hw.switch.fabric import SwitchFabric
from multitree.hw.switch.faults import SWITCH_FAULT, SwitchFault, SwitchFaults

__all__ = ["Switch"]


class Switch(wiring.Component):
    """Carries messages between its ports, each along the route that its head brings.

    Each port is one end of a link with virtual channels, and `SwitchFabric` lies between them. On
    every link the virtual channel is twice a class, which comes with the route for each hop, plus a
    parity, which stays what it was where the message began.

    A head that cannot go on is a fault, and so are a message that is cut, a wrong flit of a link
    and a link that goes down with messages on it: the first one is kept, named with its port, and
    reported on all ports (`SwitchFaults`). What such a message still has to bring is taken and
    dropped, so that it blocks no other. A head waits for a port whose link has not been up yet; one
    that never comes up disturbs no other port. Reset brings all links down and forgets everything;
    after a fault it is due together with the interfaces'.

    Latency 5 cycles from link to link where nothing waits; one flit per cycle and port in and out.
    Messages on one channel of an input are at least a cycle apart, which other channels can use.
    Credits return as `LinkReceiver` says. All outputs are registers.

    Parameters
    ----------
    num_ports : int
        Ports, 2 to 32.
    num_vcs : int
        Virtual channels of every port, 2 or 4: one or two classes, two parities.
    flit_bytes : int
        Bytes of a flit's payload.
    depth, submessage_flits : int
        As of `LinkReceiver`; the same at all neighbours.
    route_offset, num_hops : int
        Bit of a head's payload where the route begins; hops it has room for.
    sequence_offset, step_offset : int
        Bits of a head's payload where the collective's number (8 bits) and the step (16) begin.

    Members
    -------
    number : In(16)
        Its own, sent with its faults.
    link : one per port
        `tx` Out(LinkSignature) and `rx` In(LinkSignature).
    up : Out(num_ports)
        Per port: the link carries data in both directions.
    fault : Out(SWITCH_FAULT)
        The first fault since reset, and the port that it concerns.
    origin : Out(32)
        Who began it: number (16 bits), code there (8), and bit 24, once it is known.
    """

    def __init__(
        self,
        *,
        num_ports: int,
        num_vcs: int,
        flit_bytes: int,
        depth: int,
        submessage_flits: int,
        route_offset: int,
        num_hops: int,
        sequence_offset: int,
        step_offset: int,
    ):
        sizes = {"num_vcs": num_vcs, "flit_bytes": flit_bytes}
        self.num_ports = num_ports
        self._fabric = SwitchFabric(
            num_ports=num_ports,
            route_offset=route_offset,
            num_hops=num_hops,
            sequence_offset=sequence_offset,
            step_offset=step_offset,
            has_twins=True,
            **sizes,
        )
        flits = {"depth": depth, "submessage_flits": submessage_flits}
        self._new_port = partial(LinkPort, **sizes, **flits)
        self._faults = SwitchFaults(num_ports=num_ports, flit_bytes=flit_bytes)
        link = LinkSignature(**sizes)
        ends = wiring.Signature({"tx": Out(link), "rx": In(link)})
        self.num_vcs, self.flit_bytes, self.depth, self.submessage_flits = (
            num_vcs,
            flit_bytes,
            depth,
            submessage_flits,
        )
        self.route_offset, self.num_hops, self.sequence_offset, self.step_offset = (
            route_offset,
            num_hops,
            sequence_offset,
            step_offset,
        )
        super().__init__(
            {
                "number": In(16),
                "link": Out(ends).array(num_ports),
                "up": Out(num_ports),
                "fault": Out(SWITCH_FAULT),
                "origin": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.fabric = fabric = self._fabric
        m.submodules.faults = faults = self._faults
        ports = add_instances(m, platform, "port", self.num_ports, self._new_port)
        # A link that was never up may still come: only one that was and is not has lost messages.
        seen = Signal(self.num_ports)
        m.d.sync += seen.eq(seen | self.up)
        m.d.comb += [
            self.up.eq(Cat(port.up for port in ports)),
            fabric.gone.eq(seen & ~self.up),
            faults.number.eq(self.number),
            faults.up.eq(self.up),
            self.fault.eq(faults.fault),
            self.origin.eq(faults.origin),
        ]
        for number, port in enumerate(ports):
            wiring.connect(m, port.tx, wiring.flipped(self.link[number].tx))
            wiring.connect(m, wiring.flipped(self.link[number].rx), port.rx)
            for vc, flits in enumerate(port.o):
                wiring.connect(m, flits, fabric.i[number * len(port.o) + vc])
            m.d.comb += [
                fabric.may_send[number].eq(port.may_send),
                port.take.eq(fabric.take[number]),
                port.flit.eq(fabric.flits[number]),
                faults.fault_received[number].eq(port.fault_received),
                faults.received_fault[number].eq(port.received_fault),
                faults.fault_sent[number].eq(port.fault_sent),
                port.send_fault.eq(faults.send_fault[number]),
                port.fault_record.eq(faults.fault_record),
            ]
            self._name_faults(m, number, port)
        return m

    def _name_faults(self, m, number, port):
        """The last one that holds wins: nearest to the cause."""
        fabric = self._fabric
        link_faults = (
            (port.fault_credit, SwitchFault.CREDIT_OVERFLOW),
            (port.overflow, SwitchFault.BUFFER_OVERFLOW),
            (port.check_error, SwitchFault.LINK_CHECK),
            (port.sequence_error, SwitchFault.LINK_SEQUENCE),
            (port.epoch_error, SwitchFault.LINK_EPOCH),
            (port.state_error | fabric.state_errors[number], SwitchFault.STATE_PARITY),
        )
        broken = Cat(strobe for strobe, _ in link_faults).any()
        # A link at fault is as good as lost: its messages may never be complete.
        m.d.comb += fabric.lost[number].eq(port.lost | broken)
        for strobe, fault in (
            (fabric.lost_messages[number], SwitchFault.PEER_RESET),
            (fabric.route_errors[number], SwitchFault.ROUTE),
            (fabric.framing_errors[number], SwitchFault.FRAMING),
            *link_faults,
        ):
            with m.If(strobe):
                m.d.comb += self._faults.faults[number].eq(fault)
