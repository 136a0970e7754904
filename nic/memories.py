"""Table and flow memory: written over the bus, read by fetcher and receivers."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import RoundRobin
from multitree.nic.config import Config
from multitree.nic.layouts import FLOW_ENTRY, ROW, LookupSignature

__all__ = ["FlowMemory", "TableMemory"]


class TableMemory(wiring.Component):
    """Rows of the schedule table, two words of 32 bits each.

    Parameters
    ----------
    config : Config

    Members
    -------
    write : In(1)
        Store `data` at word `word` of row `index`.
    index : In(16)
        Row.
    word : In(1)
        Word of the row.
    data : In(32)
        What to store.
    address : In(16)
        Row to read.
    row : Out(ROW)
        The row at `address` in the cycle before.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "write": In(1),
                "index": In(16),
                "word": In(1),
                "data": In(32),
                "address": In(16),
                "row": Out(ROW),
            }
        )

    def elaborate(self, platform):
        """One memory, written word by word."""
        m = Module()
        m.submodules.memory = memory = Memory(
            shape=ROW.size, depth=self._config.table_depth, init=[]
        )
        write = memory.write_port(granularity=32)
        read = memory.read_port()
        m.d.comb += [
            write.addr.eq(self.index),
            write.data.eq(self.data.replicate(2)),
            write.en.eq(self.write << self.word),
            read.addr.eq(self.address),
            self.row.eq(read.data),
        ]
        return m


class FlowMemory(wiring.Component):
    """Entries of the flows, five words of 32 bits each; one look-up per cycle, taken in turn.

    A look-up is granted in the cycle it is asked for unless another client is before it, at most
    `num_clients - 1` cycles later; the entry follows in the cycle after.

    Parameters
    ----------
    config : Config
    num_clients : int
        Blocks that look entries up.

    Members
    -------
    write : In(1)
        Store `data` at word `word` of entry `index`.
    index : In(16)
        Entry.
    word : In(3)
        Word of the entry.
    data : In(32)
        What to store.
    lookups : In(LookupSignature), one per client
        Questions.
    """

    def __init__(self, config: Config, *, num_clients: int):
        self._config = config
        self._num_clients = num_clients
        super().__init__(
            {
                "write": In(1),
                "index": In(16),
                "word": In(3),
                "data": In(32),
                "lookups": In(LookupSignature()).array(num_clients),
            }
        )

    def elaborate(self, platform):
        """One memory behind a round-robin arbiter."""
        m = Module()
        words = FLOW_ENTRY.size // 32
        m.submodules.memory = memory = Memory(
            shape=FLOW_ENTRY.size, depth=self._config.num_flows, init=[]
        )
        m.submodules.arbiter = arbiter = RoundRobin(count=self._num_clients)
        write = memory.write_port(granularity=32)
        read = memory.read_port()
        entry = Signal(FLOW_ENTRY)
        m.d.comb += [
            write.addr.eq(self.index),
            write.data.eq(self.data.replicate(words)),
            write.en.eq(self.write << self.word),
            arbiter.advance.eq(1),
            entry.eq(read.data),
        ]
        for client, lookup in enumerate(self.lookups):
            m.d.comb += [
                arbiter.requests[client].eq(lookup.valid),
                lookup.granted.eq(arbiter.valid & (arbiter.grant == client)),
                lookup.entry.eq(entry),
            ]
            with m.If(lookup.granted):
                m.d.comb += read.addr.eq(lookup.flow)
        return m
