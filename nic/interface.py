"""The network interface: bus, links and memory channels around the core."""

from amaranth import Cat, Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.axi_lite import AxiLiteSignature, AxiLiteSubordinate
from multitree.hw.link import LinkSignature
from multitree.nic.config import Config
from multitree.nic.core import Core
from multitree.nic.drain import Drain
from multitree.nic.message import ORDER_WIDTH
from multitree.nic.register_file import RegisterFile, readable
from multitree.nic.shared_core import SharedCore
from multitree.nic.signatures import MemorySignature

__all__ = ["ADDRESS_WIDTH", "MODULE_NAME", "Interface", "MonitorSignature"]

ADDRESS_WIDTH = 20
"""Bits of the register bus's byte address."""
MODULE_NAME = "multitree_nic"
"""Name of the Verilog module."""


class MonitorSignature(wiring.Signature):
    """Tells an observer that a whole message is in memory; may be left open.

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

    Parameters
    ----------
    config : Config

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
        self._config = config
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
            table_depth=self._config.table_depth,
            num_flows=self._config.num_flows,
            num_ports=self._config.num_ports,
            routes=self._config.shared,
            waves=self._config.wave_width > 0,
        )
        core = (SharedCore if self._config.shared else Core)(self._config)
        m.submodules.drain = drain = Drain(self._config)
        m.submodules.core = ResetInserter(drain.reset)(core)
        m.d.comb += drain.command.eq(registers.command[3])
        wiring.connect(m, wiring.flipped(self.s_axil), bus.bus)
        wiring.connect(m, bus.request, registers.request)
        wiring.connect(m, registers.response, bus.response)
        m.d.comb += registers.claimed.eq(core.claimed | drain.reset)
        m.d.comb += registers.start_waits.eq(core.start_waits | drain.reset)
        m.d.comb += self.irq.eq(core.irq)
        for name in ("command", "changed", "table_write", "flow_write", "index", "word", "data"):
            m.d.comb += getattr(core, name).eq(getattr(registers, name))
        m.d.comb += registers.counter.eq(core.counter)
        for inner, outer in zip(core.settings, registers.config, strict=True):
            m.d.comb += inner.eq(outer)
        known = readable(shared=self._config.shared, waves=self._config.wave_width > 0)
        for name, inner, outer in zip(known, core.status, registers.status, strict=True):
            m.d.comb += outer.eq(inner | (drain.reset if name == "STATUS" else 0))
        for port in range(self._config.num_ports):
            wiring.connect(m, core.tx[port], wiring.flipped(self.link[port].tx))
            wiring.connect(m, wiring.flipped(self.link[port].rx), core.rx[port])
            wiring.connect(m, core.memory[port], wiring.flipped(self.memory[port]))
            monitor, arrival = self.monitor[port], core.arrivals[port]
            m.d.sync += [
                monitor.valid.eq(arrival.valid & arrival.last),
                monitor.op.eq(arrival.op),
                monitor.flow.eq(arrival.flow),
            ]
            if self._config.shared:
                m.d.sync += monitor.order.eq(arrival.order)
        self._watch_memory(m, drain)
        return m

    def _watch_memory(self, m, drain):
        """Tell the drain of every request that is taken and of every answer."""
        requested, answered = [], []
        for port in self.memory:
            requested += [end.valid & end.ready for end in (port.send, port.fetch, port.write)]
            answered += [port.send.data_valid, port.fetch.data_valid, port.write.ack]
        m.d.comb += [drain.requested.eq(Cat(requested)), drain.answered.eq(Cat(answered))]
