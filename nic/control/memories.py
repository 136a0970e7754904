"""Table and flow memory in two banks: one is executed, the other one written."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import RoundRobin
from multitree.hw.check_bits import check_of, is_intact
from multitree.hw.codes import check_width
from multitree.nic.control.checker import Checker
from multitree.nic.control.register_file import Snapshot, writable
from multitree.nic.driver.config import Config
from multitree.nic.layouts import FLOW_ENTRY, row_layout
from multitree.nic.signatures import LookupSignature

__all__ = ["BankedMemory", "FlowMemory", "TableMemory", "Tables"]

_STORED_WIDTH = 32 + check_width(32)


class BankedMemory(wiring.Component):
    """Entries of `num_words` words of 32 bits in two banks, each word with its check bits.

    Reads of the active bank and of the shadow bank do not disturb each other; writes go to the
    shadow bank. A word is stored with seven check bits, so that up to three bits of it that flip in
    memory show in every later read; nothing is corrected. What is read is registered once more, as
    block memories are slow: the entry comes two cycles after its address.

    Members
    -------
    bank : In(1)
        The active bank; the other one is the shadow.
    write, index, word, data : In(1), In(16), In(3), In(32)
        Store `data` at word `word` of entry `index` of the shadow bank.
    address, shadow_address : In(16)
        Entry to read of the active and of the shadow bank.
    entry, shadow_entry : Out(32 * num_words)
        The entry at the address two cycles before.
    intact, shadow_intact : Out(1)
        Its words are as they were written.
    """

    def __init__(self, *, depth: int, num_words: int):
        self.num_words = num_words
        stored = _STORED_WIDTH * num_words
        # Held by the component, so that a test can flip bits in it.
        self.banks = [MemoryData(shape=stored, depth=depth, init=[]) for _ in range(2)]
        self.depth = depth
        super().__init__(
            {
                "bank": In(1),
                "write": In(1),
                "index": In(16),
                "word": In(3),
                "data": In(32),
                "address": In(16),
                "shadow_address": In(16),
                "entry": Out(32 * num_words),
                "shadow_entry": Out(32 * num_words),
                "intact": Out(1),
                "shadow_intact": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        found = []
        for number, content in enumerate(self.banks):
            # What is read is not written, since writes are refused while a check goes on.
            m.submodules[f"bank_{number}"] = memory = Memory(content, attrs={"no_rw_check": 1})
            write = memory.write_port(granularity=_STORED_WIDTH)
            read = memory.read_port()
            shadow = self.bank != number
            m.d.comb += [
                write.addr.eq(self.index),
                write.data.eq(Cat(self.data, check_of(self.data)).replicate(self.num_words)),
                write.en.eq((self.write & shadow) << self.word),
                read.addr.eq(Mux(shadow, self.shadow_address, self.address)),
            ]
            found.append(read.data)
        # The bank selects a cycle after the address. It changes only between collectives, and
        # receivers refuse a head whose look-up spans the end of one (STALE_SEQUENCE).
        for entry, intact, stored in (
            (self.entry, self.intact, Mux(self.bank, found[1], found[0])),
            (self.shadow_entry, self.shadow_intact, Mux(self.bank, found[0], found[1])),
        ):
            held = Signal.like(stored, reset_less=True)
            m.d.sync += held.eq(stored)
            words = [held[_STORED_WIDTH * k :][:_STORED_WIDTH] for k in range(self.num_words)]
            m.d.comb += [
                entry.eq(Cat(word[:32] for word in words)),
                intact.eq(Cat(is_intact(word[:32], word[32:]) for word in words).all()),
            ]
        return m


class TableMemory(wiring.Component):
    """Rows of the schedule table, two or four words of 32 bits, in two banks (`BankedMemory`).

    Members
    -------
    bank, write, index, word, data, address, shadow_address, intact, shadow_intact : In, Out
        As of `BankedMemory`.
    row, shadow_row : Out(row_layout(config))
        The row at the address two cycles before.
    """

    def __init__(self, config: Config):
        self.content = BankedMemory(
            depth=config.table_depth, num_words=row_layout(config).size // 32
        )
        self.config = config
        super().__init__(
            {
                "bank": In(1),
                "write": In(1),
                "index": In(16),
                "word": In(3),
                "data": In(32),
                "address": In(16),
                "shadow_address": In(16),
                "row": Out(row_layout(config)),
                "shadow_row": Out(row_layout(config)),
                "intact": Out(1),
                "shadow_intact": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.content = content = self.content
        for name in ("bank", "write", "index", "word", "data", "address", "shadow_address"):
            m.d.comb += getattr(content, name).eq(getattr(self, name))
        m.d.comb += [
            self.row.eq(content.entry),
            self.shadow_row.eq(content.shadow_entry),
            self.intact.eq(content.intact),
            self.shadow_intact.eq(content.shadow_intact),
        ]
        return m


class FlowMemory(wiring.Component):
    """Entries of the flows, five words of 32 bits each, in two banks (`BankedMemory`).

    Clients look up entries of the active bank, one per cycle, taken in turn: a look-up is granted
    in the cycle it is asked for unless another client is before it, at most `num_clients - 1`
    cycles later; the entry follows two cycles after. The shadow bank has one reader.

    Members
    -------
    bank, write, index, word, data, shadow_address, shadow_intact : In, Out
        As of `BankedMemory`.
    shadow_entry : Out(FLOW_ENTRY)
        The entry at that address two cycles before.
    lookups : In(LookupSignature), one per client
        Questions.
    """

    def __init__(self, config: Config, *, num_clients: int):
        self.num_clients = num_clients
        self.content = BankedMemory(depth=config.num_flows, num_words=FLOW_ENTRY.size // 32)
        self.config = config
        super().__init__(
            {
                "bank": In(1),
                "write": In(1),
                "index": In(16),
                "word": In(3),
                "data": In(32),
                "shadow_address": In(16),
                "shadow_entry": Out(FLOW_ENTRY),
                "shadow_intact": Out(1),
                "lookups": In(LookupSignature()).array(num_clients),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.content = content = self.content
        m.submodules.arbiter = arbiter = RoundRobin(count=self.num_clients)
        for name in ("bank", "write", "index", "word", "data", "shadow_address"):
            m.d.comb += getattr(content, name).eq(getattr(self, name))
        m.d.comb += [
            arbiter.advance.eq(1),
            self.shadow_entry.eq(content.shadow_entry),
            self.shadow_intact.eq(content.shadow_intact),
        ]
        # All see the same entry; which one is whose follows from the grant two cycles before.
        for client, lookup in enumerate(self.lookups):
            m.d.comb += [
                arbiter.requests[client].eq(lookup.valid),
                lookup.granted.eq(arbiter.granted[client]),
                lookup.entry.eq(content.entry),
                lookup.intact.eq(content.intact),
            ]
        # One at most is granted.
        flows = [Mux(lookup.granted, lookup.flow, 0) for lookup in self.lookups]
        m.d.comb += content.address.eq(reduce(or_, flows))
        return m


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
