"""The core of an interface on shared links: what came goes to the sequencer."""

from dataclasses import replace

from amaranth import Cat, Const, Signal
from amaranth.lib import wiring

from multitree.nic.control.register_file import writable
from multitree.nic.control.tracker import DependencyTracker, ask_always, connect_report
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.layouts import register_view
from multitree.nic.reduce.reorder_buffer import ReorderBuffer
from multitree.nic.reduce.sequencer import ReductionSequencer
from multitree.nic.top.core import Core

__all__ = ["SharedCore"]


class SharedCore(Core):
    """The core with shared ports, a sequencer, and a reorder buffer at port 0.

    A row waits for a whole sum or result of its flow, wherever that came from: the tracker keeps
    one count for each, which the sequencer reports. What was staged is added by the reducer of port
    0.
    """

    def __init__(self, config: Config):
        super().__init__(config)
        self._sequencer = ReductionSequencer(config)
        self._reorder_buffer = ReorderBuffer(config)

    def _show_status(self, m, *blocks):
        super()._show_status(m, *blocks)
        staged = Signal(32)
        m.d.sync += staged.eq(staged + self._sequencer.staged)
        # `readable` puts STAGED last, since not all interfaces have it.
        m.d.comb += self.status[-1].eq(staged)

    def _arrived(self, ports):
        return Cat(self._sequencer.counted, Const(0, len(ports) - 1))

    def _drive_run(self, m, run, used, control, monitor):
        super()._drive_run(m, run, used, control, monitor)
        m.d.comb += run.header_only.eq(register_view("MODE", used["MODE"]).header_only)
        wiring.connect(m, run, self._reorder_buffer.run)

    def _wire_tables(self, m, ports, fetcher, tables, control):
        super()._wire_tables(m, ports, fetcher, tables, control)
        wiring.connect(m, self._reorder_buffer.lookup, tables.lookups[len(ports)])

    def _make_tracker(self):
        """One count for each sum or result; its clients are senders and the bus."""
        config = self.config
        return DependencyTracker(replace(config, num_ports=1), num_clients=config.num_ports + 1)

    def _check_state(self, m, monitor, fetcher):
        """What is known of sums is no port's, and neither is what was staged."""
        blocks, flipped = (self._tracker, self._sequencer, self._reorder_buffer), Signal()
        m.d.sync += flipped.eq(Cat(block.state_error for block in blocks).any())
        with m.If(flipped):
            m.d.comb += monitor.control.eq(FaultCode.STATE_PARITY)

    def _wire_tracker(self, m, ports, control, select):
        """Messages to the sequencer, sums and results to the tracker; returns the bus's count."""
        sequencer, reorder_buffer, tracker = self._sequencer, self._reorder_buffer, self._tracker
        self._add_twins(m, sequencer=sequencer, reorder_buffer=reorder_buffer, tracker=tracker)
        for number, port in enumerate(ports):
            wiring.connect(m, port.send_query, tracker.queries[number])
            wiring.connect(m, port.reservation, sequencer.reservations[number])
            for name in port.turn.signature.members:
                m.d.comb += getattr(port.turn, name).eq(getattr(sequencer.turn, name))
            for name in port.arrival.signature.members:
                came = getattr(sequencer.arrivals[number], name)
                m.d.comb += came.eq(getattr(port.arrival, name))
        connect_report(m, sequencer.arrival, tracker.arrivals[0])
        # Not those of the ports: what has no payload is in no memory, what is staged not yet.
        for name in ("op", "flow", "order", "last"):
            given = getattr(self.arrivals[0], name)
            m.d.comb += given.eq(getattr(sequencer.arrival, name))
        m.d.comb += self.arrivals[0].valid.eq(sequencer.counted)
        wiring.connect(m, sequencer.drains, reorder_buffer.jobs)
        wiring.connect(m, reorder_buffer.items, ports[0].staged)
        wiring.connect(m, reorder_buffer.read, ports[0].read)
        m.d.comb += tracker.running.eq(control.running)
        for block in (sequencer, tracker):
            m.d.comb += [
                block.phase.eq(control.sequence[0]),
                block.bank.eq(control.bank),
                block.clear.eq(control.check),
            ]
        m.d.comb += control.clearing.eq(tracker.clearing | sequencer.clearing)
        changed = self.changed[writable().index("COUNT_SELECT")]
        return ask_always(m, tracker.queries[-1], select, changed)

    def _wire_monitor(self, m, ports, fetcher, tables, control, monitor, used):
        super()._wire_monitor(m, ports, fetcher, tables, control, monitor, used)
        with m.If(self._reorder_buffer.fault.any()):
            m.d.comb += [
                monitor.table.eq(self._reorder_buffer.fault),
                monitor.table_index.eq(self._reorder_buffer.flow),
                monitor.table_of_flow.eq(1),
            ]
