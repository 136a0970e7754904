"""The network interface with AXI4 managers on its memory side."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.axi.bursts import MAX_BEATS, AxiReader, AxiWriter, byte_address_width
from multitree.hw.axi.channels import AxiReadSignature, AxiSignature
from multitree.hw.axi.lite import AxiLiteSignature
from multitree.hw.component import check_integer
from multitree.hw.link.link import LinkSignature
from multitree.nic.driver.config import Config
from multitree.nic.interface import ADDRESS_WIDTH, Interface, MonitorSignature

__all__ = ["AXI_MODULE_NAME", "AxiInterface", "AxiPortSignature"]

AXI_MODULE_NAME = "multitree_nic_axi"
"""Name of the Verilog module."""


class AxiPortSignature(wiring.Signature):
    """The two AXI4 buses of a port, seen from the interface; byte addresses.

    Members
    -------
    send : Out(AxiReadSignature)
        The sender's reads; at port 0, on shared links, those of staged contributions, too.
    receive : Out(AxiSignature)
        The receiver's reads and writes.
    """

    def __init__(self, config: Config):
        sizes = {"address_width": config.address_width, "flit_bytes": config.flit_bytes}
        bus = {"address_width": byte_address_width(**sizes), "data_bytes": config.flit_bytes}
        super().__init__(
            {"send": Out(AxiReadSignature(**bus)), "receive": Out(AxiSignature(**bus))}
        )


class AxiInterface(wiring.Component):
    """`Interface` with its memory behind AXI4, two buses per port.

    Consecutive flits travel in bursts of up to 16 beats; one flit per cycle and channel as long
    as the bus answers within about `memory_queue_flits` cycles. A response that is not OKAY stops
    the interface with the fault MEMORY_ERROR. CONTROL.reset may come while reads and writes are
    in flight: they end on the bus as the standard demands, and the reset lasts until they have.
    The byte address is the flit's address times `flit_bytes`. No output depends combinationally
    on an input.

    A read must see every write, of any port, whose response came before it: the buses of all
    ports must lead to memory that is coherent among them.

    Parameters
    ----------
    config : Config
    gather_cycles : int
        Longest time for which an access waits for others to form a burst (0..15).

    Members
    -------
    s_axil : In(AxiLiteSignature)
        Register bus, byte addresses.
    irq : Out(1)
        High when a collective is done or a fault stopped it.
    link : one per port
        `tx` Out(LinkSignature) and `rx` In(LinkSignature).
    m_axi : Out(AxiPortSignature), one per port
        Memory buses.
    monitor : Out(MonitorSignature), one per port
        Messages that came in; on shared links all at port 0, once they are counted.

    Raises
    ------
    TypeError, ValueError
        If `gather_cycles` is no integer, or out of range.

    References
    ----------
    Arm, "AMBA AXI and ACE Protocol Specification", IHI 0022, part A: AXI4.
    """

    def __init__(self, config: Config, *, gather_cycles: int = 3):
        self.config = config
        self.gather_cycles = check_integer(
            "Gather cycles", gather_cycles, least=0, most=MAX_BEATS - 1
        )
        link = LinkSignature(flit_bytes=config.flit_bytes, num_vcs=config.num_vcs)
        ends = wiring.Signature({"tx": Out(link), "rx": In(link)})
        super().__init__(
            {
                "s_axil": In(AxiLiteSignature(address_width=ADDRESS_WIDTH)),
                "irq": Out(1),
                "link": Out(ends).array(config.num_ports),
                "m_axi": Out(AxiPortSignature(config)).array(config.num_ports),
                "monitor": Out(MonitorSignature(config)).array(config.num_ports),
            }
        )

    def elaborate(self, platform):
        """Three managers per port, which outlive the core's reset."""
        m = Module()
        m.submodules.interface = interface = Interface(self.config)
        wiring.connect(m, wiring.flipped(self.s_axil), interface.s_axil)
        m.d.comb += self.irq.eq(interface.irq)
        for port in range(self.config.num_ports):
            inner, outer = interface.link[port], self.link[port]
            wiring.connect(m, inner.tx, wiring.flipped(outer.tx))
            wiring.connect(m, wiring.flipped(outer.rx), inner.rx)
            wiring.connect(m, interface.monitor[port], wiring.flipped(self.monitor[port]))
            channels, buses = interface.memory[port], self.m_axi[port]
            for name, make, channel, bus in (
                ("send", AxiReader, channels.send, buses.send),
                ("fetch", AxiReader, channels.fetch, buses.receive),
                ("write", AxiWriter, channels.write, buses.receive),
            ):
                self._manage(m, f"{name}_{port}", make, channel, bus)
        return m

    def _manage(self, m, name, make, channel, bus):
        """Put a manager between a channel and its part of a bus."""
        config = self.config
        m.submodules[name] = manager = make(
            address_width=config.address_width,
            flit_bytes=config.flit_bytes,
            depth=config.memory_queue_flits,
            gather_cycles=self.gather_cycles,
        )
        wiring.connect(m, channel, manager.channel)
        for label, member in manager.bus.signature.members.items():
            inner, outer = getattr(manager.bus, label), getattr(bus, label)
            if member.flow == Out:
                m.d.comb += outer.eq(inner)
            else:
                m.d.comb += inner.eq(outer)
