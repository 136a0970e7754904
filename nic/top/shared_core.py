"""The core of an interface on shared links: what came goes to the collector."""

from dataclasses import replace

from amaranth import Cat, Const, Signal
from amaranth.lib import wiring

from multitree.nic.config import Config
from multitree.nic.control.register_file import writable
from multitree.nic.control.tracker import DependencyTracker, ask_always
from multitree.nic.faults import FaultCode
from multitree.nic.reduce.reorder_buffer import Staging
from multitree.nic.reduce.sequencer import Collector
from multitree.nic.top.core import Core
from multitree.nic.top.shared_port import SharedPort

__all__ = ["SharedCore"]


class SharedCore(Core):
    """The core with shared ports, a collector, and staging beside port 0.

    A row waits for a whole sum or result of its flow, wherever that came from: the tracker keeps
    one count for each, which the collector reports. What was staged is added by the reducer of
    port 0.

    Parameters
    ----------
    config : Config
        Of an interface on shared links.
    """

    port_class = SharedPort

    def __init__(self, config: Config):
        super().__init__(config)
        self._collector = Collector(config)
        self._staging = Staging(config)

    def _show_status(self, m, *blocks):
        """The registers as on private links, and one more."""
        super()._show_status(m, *blocks)
        staged = Signal(32)
        m.d.sync += staged.eq(staged + self._collector.staged)
        m.d.comb += self.status[-1].eq(staged)

    def _arrived(self, ports):
        """The collector counts messages, one at a time."""
        return Cat(self._collector.counted, Const(0, len(ports) - 1))

    def _drive_run(self, m, run, used, control, monitor):
        """What the blocks have to know of the collective that runs, staging included."""
        super()._drive_run(m, run, used, control, monitor)
        m.d.comb += run.silent.eq(used["MODE"][6:8])
        wiring.connect(m, run, self._staging.run)

    def _wire_tables(self, m, ports, fetcher, tables, control):
        """The tables as on private links, with one look-up more."""
        super()._wire_tables(m, ports, fetcher, tables, control)
        wiring.connect(m, self._staging.lookup, tables.lookups[len(ports)])

    def _make_tracker(self):
        """One count for each sum or result; its clients are senders and the bus."""
        config = self._config
        return DependencyTracker(replace(config, num_ports=1), num_clients=config.num_ports + 1)

    def _check_state(self, m, monitor):
        """What is known of sums is no port's, and neither is what was staged."""
        blocks, flipped = (self._tracker, self._collector, self._staging), Signal()
        m.d.sync += flipped.eq(Cat(block.state_error for block in blocks).any())
        with m.If(flipped):
            m.d.comb += monitor.control.eq(FaultCode.STATE_PARITY)

    def _wire_tracker(self, m, ports, control, select):
        """Messages to the collector, sums and results to the tracker; returns the bus's count."""
        m.submodules.collector = collector = self._collector
        m.submodules.staging = staging = self._staging
        m.submodules.tracker = tracker = self._tracker
        for number, port in enumerate(ports):
            wiring.connect(m, port.send_query, tracker.queries[number])
            wiring.connect(m, port.claim, collector.claims[number])
            for name in port.turn.signature.members:
                m.d.comb += getattr(port.turn, name).eq(getattr(collector.turn, name))
            for name in port.arrival.signature.members:
                came = getattr(collector.arrivals[number], name)
                m.d.comb += came.eq(getattr(port.arrival, name))
        wiring.connect(m, collector.arrival, tracker.arrivals[0])
        # Not those of the ports: what has no payload is in no memory, what is staged not yet.
        for name in ("op", "flow", "order", "last"):
            told = getattr(self.arrivals[0], name)
            m.d.comb += told.eq(getattr(collector.arrival, name))
        m.d.comb += self.arrivals[0].valid.eq(collector.counted)
        wiring.connect(m, collector.drains, staging.jobs)
        wiring.connect(m, staging.items, ports[0].staged)
        wiring.connect(m, staging.read, ports[0].read)
        m.d.comb += tracker.running.eq(control.running)
        for block in (collector, tracker):
            m.d.comb += [
                block.phase.eq(control.sequence[0]),
                block.bank.eq(control.bank),
                block.clear.eq(control.check),
            ]
        m.d.comb += control.clearing.eq(tracker.clearing | collector.clearing)
        changed = self.changed[writable().index("COUNT_SELECT")]
        return ask_always(m, tracker.queries[-1], select, changed)

    def _wire_monitor(self, m, ports, fetcher, tables, control, monitor, used):
        """The sources of faults as on private links, and one more."""
        super()._wire_monitor(m, ports, fetcher, tables, control, monitor, used)
        with m.If(self._staging.fault.any()):
            m.d.comb += [
                monitor.table.eq(self._staging.fault),
                monitor.table_index.eq(self._staging.flow),
                monitor.table_of_flow.eq(1),
            ]
