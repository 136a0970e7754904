"""The network interface: its memory side as channels, or as AXI4."""

from amaranth import Cat, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.axi.bursts import MAX_BEATS, AxiReader, AxiWriter, byte_address_width
from multitree.hw.axi.channels import AxiReadSignature, AxiSignature
from multitree.hw.axi.lite import AxiLiteSignature, AxiLiteSubordinate
from multitree.hw.codes import check_integer
from multitree.hw.link.link import LinkSignature
from multitree.hw.switch.switch import Switch
from multitree.nic.control.register_file import RegisterFile, readable
from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import NUM_HOPS, ORDER_WIDTH
from multitree.nic.layouts import head_layout, register_view
from multitree.nic.signatures import MemorySignature
from multitree.nic.top.core import Core
from multitree.nic.top.shared_core import SharedCore

__all__ = [
    "ADDRESS_WIDTH",
    "AXI_MODULE_NAME",
    "AxiInterface",
    "AxiPortSignature",
    "Drain",
    "Interface",
    "MonitorSignature",
    "switch_for",
]

CHANNELS_PER_PORT = 3
"""The sender's reads, the receiver's reads, the receiver's writes."""


class Drain(wiring.Component):
    """Holds a reset until every memory request is answered.

    Requests made before a reset are answered after it: an answer that found the interface running
    again would be taken for one to the next collective's first request, and all flits would be
    off by one. The reset lasts at least two cycles; it begins in the cycle after
    the command. It must not be reset itself.

    Members
    -------
    command : In(1)
        Reset, a strobe.
    requested : In(3 * num_ports)
        Strobe per channel: a request was taken.
    answered : In(3 * num_ports)
        Strobe per channel: data or an acknowledgement came.
    reset : Out(1)
        Reset of all blocks with requests; a register.
    """

    def __init__(self, config: Config):
        self.config = config
        channels = CHANNELS_PER_PORT * config.num_ports
        super().__init__(
            {
                "command": In(1),
                "requested": In(channels),
                "answered": In(channels),
                "reset": Out(1),
            }
        )

    def elaborate(self, platform):
        """A count per channel; in its first cycle a reset still lets requests through."""
        m = Module()
        waiting = []
        for requested, answered in zip(self.requested, self.answered, strict=True):
            # Room is reserved for every answer, so that there are never more.
            outstanding = Signal(range(self.config.most_reads + 1))
            # Handshakes come from far: they are registered before they are counted.
            asked, came, left = Signal(), Signal(), Signal.like(outstanding)
            m.d.comb += left.eq(outstanding + asked - came)
            m.d.sync += [asked.eq(requested), came.eq(answered), outstanding.eq(left)]
            waiting.append(left != 0)
        # What is asked for in the reset's first cycle is in the counts from its second one on.
        lasts = Signal()
        m.d.sync += lasts.eq(self.reset)
        with m.If(self.command):
            m.d.sync += self.reset.eq(1)
        with m.Elif(lasts & ~Cat(waiting).any()):
            m.d.sync += self.reset.eq(0)
        return m


def switch_for(config: Config, num_ports: int) -> Switch:
    """A switch of 2 to 32 ports that reads the heads of interfaces on shared links, with link
    buffers like theirs.
    """
    head = head_layout(config)
    return Switch(
        num_ports=num_ports,
        num_vcs=config.num_vcs,
        flit_bytes=config.flit_bytes,
        depth=config.buffer_flits,
        submessage_flits=config.submessage_flits,
        route_offset=head["route"].offset,
        num_hops=NUM_HOPS,
        sequence_offset=head["sequence"].offset,
        step_offset=head["step"].offset,
    )


ADDRESS_WIDTH = 20
"""Bits of the register bus's byte address."""


class MonitorSignature(wiring.Signature):
    """Reports to an observer that a whole message is in memory; may be left open.

    Members
    -------
    valid : Out(1)
        Strobe.
    op, flow : Out
        Of the message.
    order : Out
        On shared links, its place in the order of summation.
    """

    def __init__(self, config: Config):
        shared = {"order": Out(ORDER_WIDTH)} if config.shared else {}
        super().__init__({"valid": Out(1), "op": Out(1), "flow": Out(16), **shared})


class Interface(wiring.Component):
    """A network interface that executes its schedule table by itself.

    The host writes table, flows and sizes over AXI4-Lite, commits, starts, and waits for `irq`;
    the interface sends, receives and reduces chunks of the buffer in memory until its part of the
    collective is done or a named fault stops it. One flit per cycle and port in and out. No
    output depends combinationally on an input: interfaces meet only across registers.

    Members
    -------
    s_axil : In(AxiLiteSignature)
        Register bus, byte addresses.
    irq : Out(1)
        High when a collective is done or a fault stopped it.
    link : one per port
        `tx` Out(LinkSignature) and `rx` In(LinkSignature).
    memory : Out(MemorySignature), one per port
        Memory channels; addresses count flits.
    monitor : Out(MonitorSignature), one per port
        Messages that came in; on shared links all at port 0, once they are counted.

    References
    ----------
    J. Huang et al., "Communication Algorithm-Architecture Co-Design for Distributed Deep
    Learning", ISCA 2021, section IV.
    """

    def __init__(self, config: Config):
        self.config = config
        link = LinkSignature(flit_bytes=config.flit_bytes, num_vcs=config.num_vcs)
        ends = wiring.Signature({"tx": Out(link), "rx": In(link)})
        super().__init__(
            {
                "s_axil": In(AxiLiteSignature(address_width=ADDRESS_WIDTH)),
                "irq": Out(1),
                "link": Out(ends).array(config.num_ports),
                "memory": Out(MemorySignature(config)).array(config.num_ports),
                "monitor": Out(MonitorSignature(config)).array(config.num_ports),
            }
        )

    def elaborate(self, platform):
        """The core under a reset of its own; the bus survives it."""
        m = Module()
        m.submodules.bus = bus = AxiLiteSubordinate(address_width=ADDRESS_WIDTH)
        m.submodules.registers = registers = RegisterFile(
            address_width=ADDRESS_WIDTH,
            table_depth=self.config.table_depth,
            num_flows=self.config.num_flows,
            num_ports=self.config.num_ports,
            routes=self.config.shared,
            waves=self.config.wave_width > 0,
        )
        core = (SharedCore if self.config.shared else Core)(self.config)
        m.submodules.drain = drain = Drain(self.config)
        m.submodules.core = ResetInserter(drain.reset)(core)
        m.d.comb += core.reset.eq(drain.reset)
        m.d.comb += drain.command.eq(register_view("CONTROL", registers.command).reset)
        wiring.connect(m, wiring.flipped(self.s_axil), bus.bus)
        wiring.connect(m, bus.request, registers.request)
        wiring.connect(m, registers.response, bus.response)
        # While it is in reset the core would lose a command: commits and starts are refused.
        m.d.comb += registers.locked.eq(core.locked | drain.reset)
        m.d.comb += registers.start_waits.eq(core.start_waits | drain.reset)
        m.d.comb += self.irq.eq(core.irq)
        for name in ("command", "changed", "table_write", "flow_write", "index", "word", "data"):
            m.d.comb += getattr(core, name).eq(getattr(registers, name))
        m.d.comb += registers.counter.eq(core.counter)
        for inner, outer in zip(core.settings, registers.config, strict=True):
            m.d.comb += inner.eq(outer)
        known = readable(shared=self.config.shared, waves=self.config.wave_width > 0)
        for name, inner, outer in zip(known, core.status, registers.status, strict=True):
            # Bit 0 of STATUS is `busy`, which the core in reset reports as 0.
            m.d.comb += outer.eq(inner | (drain.reset if name == "STATUS" else 0))
        for port in range(self.config.num_ports):
            wiring.connect(m, core.tx[port], wiring.flipped(self.link[port].tx))
            wiring.connect(m, wiring.flipped(self.link[port].rx), core.rx[port])
            wiring.connect(m, core.memory[port], wiring.flipped(self.memory[port]))
            monitor, arrival = self.monitor[port], core.arrivals[port]
            m.d.sync += [
                monitor.valid.eq(arrival.valid & arrival.last),
                monitor.op.eq(arrival.op),
                monitor.flow.eq(arrival.flow),
            ]
            if self.config.shared:
                m.d.sync += monitor.order.eq(arrival.order)
        self._watch_memory(m, drain)
        return m

    def _watch_memory(self, m, drain):
        """Report every request that is taken and every answer to the drain."""
        requested, answered = [], []
        for port in self.memory:
            requested += [end.valid & end.ready for end in (port.send, port.fetch, port.write)]
            answered += [port.send.data_valid, port.fetch.data_valid, port.write.ack]
        m.d.comb += [drain.requested.eq(Cat(requested)), drain.answered.eq(Cat(answered))]


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
