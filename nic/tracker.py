"""The dependency tracker: how much of every flow came in on every port."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from multitree.hw.arbiter import RoundRobin
from multitree.nic.config import Config
from multitree.nic.signatures import ArrivalSignature, QuerySignature

__all__ = ["DependencyTracker"]


class DependencyTracker(wiring.Component):
    """Per port, flow and op one count of the sub-messages that are in memory.

    Receivers report; senders and receivers ask. What was reported before a question is read from
    memory, clients taking turns: the answer comes at most `num_clients + 2` cycles after the
    question. A report that concerns a standing question is answered in the next cycle, whoever
    else asks: waiting for a turn at every hop would lengthen each tree's path. Counts are never
    reset between collectives: each carries the lowest bit of the collective it was made
    in, and one of the collective before reads as 0. That is sound because a collective only ends
    when every expected message is in, so that no expected count is ever two collectives old.
    Another table's counts are kept in another bank, which is cleared before that table may run.

    Parameters
    ----------
    config : Config
    num_clients : int
        Blocks that ask.

    Members
    -------
    phase : In(1)
        Lowest bit of the running collective's number.
    bank : In(1)
        The bank in use.
    clear : In(1)
        Start to set all counts of the other bank to 0; `bank` must stay until that is done.
    clearing : Out(1)
        They are being set to 0, in `2 * num_flows` cycles without an arrival.
    arrivals : In(ArrivalSignature), one per port
        What came in.
    queries : In(QuerySignature), one per client
        Questions.
    """

    def __init__(self, config: Config, *, num_clients: int):
        self._config = config
        self._num_clients = num_clients
        super().__init__(
            {
                "phase": In(1),
                "bank": In(1),
                "clear": In(1),
                "clearing": Out(1),
                "arrivals": In(ArrivalSignature(config)).array(config.num_ports),
                "queries": In(QuerySignature(config)).array(num_clients),
            }
        )

    def elaborate(self, platform):
        """One memory per port, one question per cycle."""
        m = Module()
        config = self._config
        m.submodules.arbiter = arbiter = RoundRobin(count=self._num_clients)
        entry = data.StructLayout({"count": config.count_width, "phase": 1})
        sweep = Signal(ceil_log2(2 * config.num_flows))
        idle = ~Cat(arrival.valid for arrival in self.arrivals).any()
        with m.If(self.clear):
            m.d.sync += [self.clearing.eq(1), sweep.eq(0)]
        with m.Elif(self.clearing & idle):
            m.d.sync += [
                sweep.eq(sweep + 1),
                self.clearing.eq(~(sweep == 2 * config.num_flows - 1)),
            ]

        port, index = Signal(4), Signal(17)
        asked_port = Signal(4)
        m.d.comb += arbiter.advance.eq(1)
        m.d.sync += asked_port.eq(port)
        found_count, count = Signal(config.count_width), Signal(config.count_width)
        # Block memories are slow: what was read is registered once more.
        m.d.sync += count.eq(found_count)
        for number, arrival in enumerate(self.arrivals):
            # What is written in the cycle of a read is overheard: no logic for that case.
            attrs, depth = {"no_rw_check": 1}, 4 * config.num_flows
            memory = Memory(shape=entry.size, depth=depth, init=[], attrs=attrs)
            m.submodules[f"counts_{number}"] = memory
            write, read = memory.write_port(), memory.read_port()
            place = Cat(self.bank, arrival.op, arrival.flow)
            m.d.comb += [
                write.en.eq(arrival.valid | self.clearing),
                write.addr.eq(Mux(arrival.valid, place, Cat(~self.bank, sweep))),
                write.data.eq(Mux(arrival.valid, Cat(arrival.count, self.phase), 0)),
                read.addr.eq(Cat(self.bank, index)),
            ]
            found = data.View(entry, read.data)
            with m.If((asked_port == number) & (found.phase == self.phase)):
                m.d.comb += found_count.eq(found.count)
        for client, query in enumerate(self.queries):
            granted = arbiter.valid & (arbiter.grant == client)
            with m.If(granted):
                m.d.comb += [port.eq(query.port), index.eq(Cat(query.op, query.flow))]
            answering = Signal(2, name=f"answering_{client}")
            overheard, newest = self._overhear(m, client, query)
            # What was read is not told to the next question, nor where it is older than a report.
            standing = answering[0] & query.valid & ~overheard
            m.d.sync += answering.eq(Cat(granted, standing))
            m.d.comb += [
                arbiter.requests[client].eq(query.valid),
                query.answered.eq(answering[1] | overheard),
                query.count.eq(Mux(overheard, newest, count)),
            ]
        return m

    def _overhear(self, m, client, query):
        """Whether a port reported in the cycle before what a client asks for, and its count."""
        overheard = Signal(name=f"overheard_{client}")
        newest = Signal(self._config.count_width, name=f"newest_{client}", reset_less=True)
        m.d.sync += overheard.eq(0)
        for number, arrival in enumerate(self.arrivals):
            concerned = (query.port == number) & (query.op == arrival.op)
            with m.If(query.valid & arrival.valid & concerned & (query.flow == arrival.flow)):
                m.d.sync += [overheard.eq(1), newest.eq(arrival.count)]
        return overheard, newest
