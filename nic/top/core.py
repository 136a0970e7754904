"""The core: ports, memories, tracker, fetcher and control wired together."""

from functools import partial

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.component import add_instances
from multitree.hw.link.link import LinkSignature
from multitree.hw.twins import Twins
from multitree.nic.control.checker import SettingsCheck
from multitree.nic.control.collective import Control
from multitree.nic.control.counters import count_activity
from multitree.nic.control.memories import Tables
from multitree.nic.control.monitor import FaultMonitor, FaultRelay, Watchdog
from multitree.nic.control.register_file import readable, writable
from multitree.nic.control.tracker import DependencyTracker, ask_always, connect_report
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.registers import identity
from multitree.nic.forward.positions import beginning_layout
from multitree.nic.layouts import register_view
from multitree.nic.send.fetcher import Fetcher
from multitree.nic.send.pipelined_fetcher import PipelinedFetcher
from multitree.nic.signatures import ArrivalSignature, MemorySignature, RunSignature
from multitree.nic.top.port import Port

__all__ = ["Core"]


class Core(wiring.Component):
    """The interface behind its bus: everything that `CONTROL.reset` resets.

    Its links are private; `SharedCore` has another kind of port, and tracks messages otherwise.

    Members
    -------
    reset : In(1)
        Resets the ports where they are instances; a `ResetInserter` has to reset all else.
    settings, status : In, Out(32), one per written and per read register
        From and to the register file, in the order of `writable()` and `readable()`.
    command, changed, table_write, flow_write, index, word, data, counter : In, Out
        As of `RegisterFile`.
    locked, start_waits, irq : Out(1)
        As of `Control`.
    tx, rx : LinkSignature, one per port
    memory : Out(MemorySignature), one per port
    arrivals : Out(ArrivalSignature), one per port
        What came in, for monitors.
    """

    def __init__(self, config: Config):
        self.config = config
        self._tracker = self._make_tracker()
        self._twins: list[Twins] = []
        if config.forward_flits:
            self._beginnings = DependencyTracker(
                config, num_clients=2 * config.num_ports, width=beginning_layout(config).size
            )
        self._readable = readable(shared=config.shared, waves=config.wave_width > 0)
        ports = config.num_ports
        link = LinkSignature(flit_bytes=config.flit_bytes, num_vcs=config.num_vcs)
        super().__init__(
            {
                "reset": In(1),
                "settings": In(32).array(len(writable())),
                "status": Out(32).array(len(self._readable)),
                "command": In(32),
                "changed": In(32),
                "table_write": In(1),
                "flow_write": In(1),
                "index": In(16),
                "word": In(3),
                "data": In(32),
                "counter": Out(32),
                "locked": Out(1),
                "start_waits": Out(1),
                "irq": Out(1),
                "tx": Out(link).array(ports),
                "rx": In(link).array(ports),
                "memory": Out(MemorySignature(config)).array(ports),
                "arrivals": Out(ArrivalSignature(config)).array(ports),
            }
        )

    def elaborate(self, platform):
        """Build the blocks, then wire them group by group."""
        m = Module()
        config = self.config
        new = partial(Port, config)
        ports = add_instances(m, platform, "port", config.num_ports, new, reset=self.reset)
        for number, port in enumerate(ports):
            m.d.comb += port.port.eq(number)
            wiring.connect(m, port.tx, wiring.flipped(self.tx[number]))
            wiring.connect(m, wiring.flipped(self.rx[number]), port.rx)
            wiring.connect(m, port.memory, wiring.flipped(self.memory[number]))
        forwards = config.forward_flits > 0
        fetcher = (PipelinedFetcher if forwards else Fetcher)(config)
        m.submodules.tables = tables = Tables(config)
        control = Control(config)
        self._add_twins(m, fetcher=fetcher, control=control)
        m.submodules.monitor = monitor = FaultMonitor(config)
        settings = dict(zip(writable(), self.settings, strict=True))
        used = dict(zip(writable(), tables.used, strict=True))
        run = RunSignature(config).create()
        for block in (fetcher, *ports):
            wiring.connect(m, run, block.run)
        for jobs, port in zip(fetcher.jobs, ports, strict=True):
            wiring.connect(m, jobs, port.jobs)
        self._drive_run(m, run, used, control, monitor)
        self._wire_tables(m, ports, fetcher, tables, control)
        missing_count = self._wire_tracker(m, ports, control, settings["COUNT_SELECT"])
        self._check_settings(m, control, settings, used)
        self._wire_control(m, ports, fetcher, control)
        self._wire_monitor(m, ports, fetcher, tables, control, monitor, used)
        self._check_state(m, monitor, fetcher)
        self._check_twins(m, monitor)
        self._wire_counters(m, ports, control)
        m.submodules.relay = relay = FaultRelay(config)
        relay.connect(m, ports, monitor, settings["RANK"])
        self._show_status(m, ports, fetcher, control, monitor, missing_count, used, relay.origin)
        return m

    def _make_tracker(self):
        return DependencyTracker(self.config, num_clients=2 * self.config.num_ports + 1)

    def _arrived(self, ports):
        """One bit per message that has done what it came for: of several waves the last one."""
        whole = Cat(port.arrival.valid & port.arrival.last for port in ports)
        if not self.config.wave_width:
            return whole
        low = self.config.part_width
        return whole & Cat(port.arrival.count[low:] == port.run.last_wave for port in ports)

    def _drive_run(self, m, run, used, control, monitor):
        """What the blocks have to know of the collective that runs."""
        mode = register_view("MODE", used["MODE"])
        m.d.comb += [
            run.running.eq(control.running),
            run.faulted.eq(monitor.faulted),
            run.sequence.eq(control.sequence),
            run.dtype.eq(mode.dtype),
            run.lockstep.eq(mode.lockstep if "lockstep" in self.config.modes else 0),
            run.cut_through.eq(mode.cut_through),
            run.packets.eq(mode.packets if "packets" in self.config.modes else 0),
            run.maximum.eq(mode.maximum),
            run.window_base.eq(used["WINDOW_BASE"]),
            run.window_flits.eq(used["WINDOW_FLITS"]),
            run.num_rows.eq(used["NUM_ROWS"]),
            run.num_flows.eq(used["NUM_FLOWS"]),
            run.last_wave.eq(used["ITERATIONS"]),
            run.last_run.eq(control.last_run),
            run.step_cycles.eq(used["STEP_CYCLES"]),
            run.bank.eq(control.bank),
            run.clear.eq(control.check),
            control.faulted.eq(monitor.faulted),
        ]

    def _wire_tables(self, m, ports, fetcher, tables, control):
        """Tables are written and checked for the next collective, and read for this one."""
        m.d.comb += Cat(tables.settings).eq(Cat(self.settings))
        for name in ("table_write", "flow_write", "index", "word", "data"):
            m.d.comb += getattr(tables, name).eq(getattr(self, name))
        for name in ("bank", "check", "swap", "held"):
            m.d.comb += getattr(tables, name).eq(getattr(control, name))
        m.d.comb += [
            tables.address.eq(fetcher.address),
            fetcher.row.eq(tables.row),
            fetcher.row_intact.eq(tables.row_intact),
            control.checking.eq(tables.checking),
            control.refused.eq(tables.code.any()),
            control.num_arrivals.eq(tables.num_arrivals),
            control.last_stage.eq(tables.last_stage),
        ]
        # On shared links there is one more, between them.
        for client, lookup in zip(ports, tables.lookups, strict=False):
            wiring.connect(m, client.lookup, lookup)
        wiring.connect(m, fetcher.lookup, tables.lookups[-1])

    def _check_settings(self, m, control, settings, used):
        """What a start would use is held against what the interface can run."""
        m.submodules.settings_check = check = SettingsCheck(self.config)
        for name in ("mode", "window_base", "window_flits", "iterations"):
            m.d.comb += getattr(check, name).eq(settings[name.upper()])
        m.d.comb += [
            # As taken over with the table, too: a start must not use another length.
            check.committed_flits.eq(used["WINDOW_FLITS"]),
            check.swap.eq(control.swap),
            control.first_sequence.eq(settings["RESET_SEQUENCE"]),
            # A launch uses what was written in the cycle before it, when no collective ran.
            control.legal.eq(check.legal),
            control.iterations.eq(used["ITERATIONS"]),
        ]

    def _wire_tracker(self, m, ports, control, select):
        """The tracker's clients: senders, receivers and the bus; returns the count it asked for."""
        tracker = self._tracker
        self._add_twins(m, tracker=tracker)
        for number, port in enumerate(ports):
            wiring.connect(m, port.send_query, tracker.queries[2 * number])
            wiring.connect(m, port.receive_query, tracker.queries[2 * number + 1])
            connect_report(m, port.arrival, tracker.arrivals[number])
            for name in port.arrival.signature.members:
                m.d.comb += getattr(self.arrivals[number], name).eq(getattr(port.arrival, name))
        changed = self.changed[writable().index("COUNT_SELECT")]
        count = ask_always(m, tracker.queries[-1], select, changed)
        trackers = [tracker, *self._forward(m, ports)]
        for each in trackers:
            m.d.comb += [
                each.running.eq(control.running),
                each.phase.eq(control.sequence[0]),
                each.bank.eq(control.bank),
                each.clear.eq(control.check),
            ]
        m.d.comb += control.clearing.eq(Cat(each.clearing for each in trackers).any())
        return count

    def _forward(self, m, ports):
        """What ports write, to all senders and receivers; the tracker of where messages begin."""
        if not self.config.forward_flits:
            return []
        beginnings = self._beginnings
        self._add_twins(m, beginnings=beginnings)
        for number, port in enumerate(ports):
            wiring.connect(m, port.send_beginning, beginnings.queries[2 * number])
            wiring.connect(m, port.receive_beginning, beginnings.queries[2 * number + 1])
            connect_report(m, port.report, beginnings.arrivals[number])
            ends = port.send_forward, port.receive_forward
            for reader, end in enumerate(ends, 2 * number):
                for source, other in enumerate(ports):
                    m.d.comb += [
                        end.written[source].eq(other.positions.written),
                        end.acknowledged[source].eq(other.positions.acknowledged),
                        other.addresses[reader].eq(end.address),
                        end.kept[source].eq(other.kept[reader]),
                    ]
        return [beginnings]

    def _wire_control(self, m, ports, fetcher, control):
        command = register_view("CONTROL", self.command)
        m.d.comb += [
            control.commit.eq(command.commit),
            control.start.eq(command.start),
            control.acknowledge.eq(command.acknowledge),
            control.fetching.eq(fetcher.busy),
            control.sending.eq(~Cat(port.idle for port in ports).all()),
            control.arrived.eq(self._arrived(ports)),
            fetcher.start.eq(control.launch),
            self.locked.eq(control.locked),
            self.start_waits.eq(control.start_waits),
            self.irq.eq(control.irq),
        ]

    def _wire_monitor(self, m, ports, fetcher, tables, control, monitor, used):
        """Every source of a fault, and what each block waits for."""
        m.submodules.watchdog = watchdog = Watchdog()
        m.d.comb += [
            watchdog.running.eq(control.running),
            watchdog.progress.eq(Cat(port.progress for port in ports).any()),
            watchdog.arrived.eq(Cat(port.arrival.valid for port in ports).any()),
            watchdog.watchdog_cycles.eq(used["WATCHDOG_CYCLES"]),
            watchdog.first_arrival_cycles.eq(used["FIRST_ARRIVAL_CYCLES"]),
            monitor.watchdog.eq(watchdog.code),
            monitor.control.eq(control.fault),
            # Never both: a table is refused while no collective runs, when the fetcher is idle.
            monitor.table.eq(Mux(control.refuse, tables.code, fetcher.fault)),
        ]
        for field in ("index", "of_flow"):
            found = [getattr(block, f"fault_{field}") for block in (tables, fetcher)]
            m.d.comb += getattr(monitor, f"table_{field}").eq(Mux(control.refuse, *found))
        for number, port in enumerate(ports):
            m.d.comb += [
                monitor.ports[number].eq(port.fault),
                monitor.ports_awaited[number].eq(port.fault_awaited),
            ]
            wiring.connect(m, port.sender_wait, monitor.waits[number])
            wiring.connect(m, port.receiver_wait, monitor.waits[len(ports) + number])

    def _add_twins(self, m, **blocks):
        """Add blocks with twins of their registers."""
        for name, block in blocks.items():
            m.submodules[name] = twins = Twins(block)
            self._twins.append(twins)

    def _check_twins(self, m, monitor):
        """Registers that have flipped are no port's."""
        with m.If(Cat(twins.state_error for twins in self._twins).any()):
            m.d.comb += monitor.control.eq(FaultCode.STATE_PARITY)

    def _check_state(self, m, monitor, fetcher):
        """Counts and jobs that have flipped are the fault of their port; reported a cycle later."""
        flipped, lost = Signal(self.config.num_ports), 0
        if self.config.forward_flits:
            lost = self._beginnings.state_error | fetcher.state_error
        m.d.sync += flipped.eq(self._tracker.state_error | lost)
        for number, code in enumerate(monitor.ports):
            # The later assignment wins over what the port itself reports in this cycle.
            with m.If(flipped[number]):
                m.d.comb += code.eq(FaultCode.STATE_PARITY)

    def _wire_counters(self, m, ports, control):
        words = count_activity(m, self.config, ports, control)
        m.d.comb += self.counter.eq(Array(words)[self.index][self.word])

    def _delivered(self, m, ports, control, monitor):
        """A register: all that was ever sent is where it belongs, as far as credits show."""
        delivered, waits = Signal(), control.held | control.start_waits | monitor.faulted
        m.d.sync += delivered.eq(~waits & Cat(port.delivered for port in ports).all())
        return delivered

    def _show_status(self, m, ports, fetcher, control, monitor, count, used, origin):
        fault = monitor.fault.as_value()
        states = [control.busy, control.committed, control.done, monitor.faulted, control.locked]
        states.append(self._delivered(m, ports, control, monitor))
        values = {
            **identity(self.config),
            "STATUS": Cat(*states, Const(0, 16 - len(states)), fetcher.step),
            "SEQUENCE": control.sequence,
            "FAULT": fault[:32],
            "FAULT_ROW": fault[32:],
            "FAULT_WAVE": monitor.wave,
            "CYCLES": control.cycles,
            "ARRIVALS_MISSING": control.missing,
            "COUNT": count,
            "FAULT_ORIGIN": origin,
            "LINKS": Cat(port.up for port in ports),
            "ACTIVE_CRC": used["TABLE_CRC"],
        }
        for name, status in zip(self._readable, self.status, strict=True):
            if name in values:
                m.d.comb += status.eq(values[name])
