"""Tables: both memories in two banks, their checker, what a run goes by."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.control.checker import Checker
from multitree.nic.control.memories import FlowMemory, TableMemory
from multitree.nic.control.register_file import Snapshot, writable
from multitree.nic.driver.config import Config
from multitree.nic.layouts import row_layout
from multitree.nic.signatures import LookupSignature

__all__ = ["Tables"]


class Tables(wiring.Component):
    """What the interface executes and what it will execute next, side by side.

    The bus writes the shadow bank and the registers; the fetcher and the receivers read the active
    bank and the registers as they were when their collective was started.

    Members
    -------
    settings, used, swap, held : In, Out
        As of `Snapshot`.
    bank : In(1)
        The active bank.
    check, checking : In(1), Out(1)
        Begin to check the shadow bank, by `settings`; the check is not over.
    table_write, flow_write, index, word, data : In
        As of `RegisterFile`.
    address, row, row_intact : In(16), Out(row_layout(config)), Out(1)
        Row of the active bank to read; that row, two cycles later; it is as it was written.
    lookups : In(LookupSignature), one per port, on shared links the staging's, the fetcher's
        Questions to the flow memory; where flits are forwarded, the fetcher's to a copy of its own.
    num_arrivals, last_stage, code, fault_index, fault_of_flow : Out
        What the last check found, as of `Checker`.
    """

    def __init__(self, config: Config):
        self.config = config
        count = len(writable())
        super().__init__(
            {
                "settings": In(32).array(count),
                "used": Out(32).array(count),
                "bank": In(1),
                "check": In(1),
                "swap": In(1),
                "held": In(1),
                "table_write": In(1),
                "flow_write": In(1),
                "index": In(16),
                "word": In(3),
                "data": In(32),
                "address": In(16),
                "row": Out(row_layout(config)),
                "row_intact": Out(1),
                "lookups": In(LookupSignature()).array(config.num_lookups),
                "checking": Out(1),
                "num_arrivals": Out(20),
                "last_stage": Out(config.wave_width),
                "code": Out(8),
                "fault_index": Out(16),
                "fault_of_flow": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = TableMemory(self.config)
        copies = self._make_flows(m)
        flows = copies[0]
        m.submodules.checker = checker = Checker(self.config)
        m.submodules.snapshot = snapshot = Snapshot()
        writes = ((table, self.table_write), *((copy, self.flow_write) for copy in copies))
        for memory, write in writes:
            m.d.comb += memory.write.eq(write)
            for name in ("bank", "index", "word", "data"):
                m.d.comb += getattr(memory, name).eq(getattr(self, name))
        lookups = [lookup for copy in copies for lookup in copy.lookups]
        for inner, outer in zip(lookups, self.lookups, strict=True):
            wiring.connect(m, wiring.flipped(outer), inner)
        m.d.comb += [
            table.address.eq(self.address),
            self.row.eq(table.row),
            self.row_intact.eq(table.intact),
            table.shadow_address.eq(checker.row_address),
            checker.row.eq(table.shadow_row),
            checker.row_intact.eq(table.shadow_intact),
            flows.shadow_address.eq(checker.flow_address),
            checker.entry.eq(flows.shadow_entry),
            checker.entry_intact.eq(flows.shadow_intact),
            snapshot.swap.eq(self.swap),
            snapshot.held.eq(self.held),
        ]
        for inner, written in zip(snapshot.settings, self.settings, strict=True):
            m.d.comb += inner.eq(written)
        for outer, used in zip(self.used, snapshot.used, strict=True):
            m.d.comb += outer.eq(used)
        self._check(m, checker)
        return m

    def _make_flows(self, m):
        """The flow memory; behind it the fetcher's copy, where that looks a flow up per cycle."""
        count = len(self.lookups)
        copied = self.config.forward_flits > 0
        m.submodules.flows = flows = FlowMemory(self.config, num_clients=count - copied)
        if not copied:
            return [flows]
        m.submodules.row_flows = row_flows = FlowMemory(self.config, num_clients=1)
        return [flows, row_flows]

    def _check(self, m, checker):
        # Not `used`: the checker goes by what is written, which stays while it is busy.
        written = dict(zip(writable(), self.settings, strict=True))
        m.d.comb += [
            checker.start.eq(self.check),
            checker.num_rows.eq(written["NUM_ROWS"]),
            checker.num_flows.eq(written["NUM_FLOWS"]),
            checker.window_flits.eq(written["WINDOW_FLITS"]),
            checker.crc.eq(written["TABLE_CRC"]),
            self.checking.eq(checker.busy),
            self.num_arrivals.eq(checker.num_arrivals),
            self.last_stage.eq(checker.last_stage),
            self.code.eq(checker.code),
            self.fault_index.eq(checker.index),
            self.fault_of_flow.eq(checker.of_flow),
        ]
