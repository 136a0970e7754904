"""The dependency tracker: how much of every flow came in on every port."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from multitree.hw.arbiter import RoundRobin
from multitree.hw.check_bits import check_of, is_intact
from multitree.hw.codes import check_width
from multitree.nic.driver.config import Config
from multitree.nic.signatures import QuerySignature, ReportSignature

__all__ = ["DependencyTracker", "ask_always", "connect_report"]


def ask_always(m, query, select, changed):
    """Ask for one count all the time, as the bus does, and return what was answered last. `select`
    is flow, port and op from bit 0; `changed` says that it is another one from the next cycle on.
    """
    asked, count = Signal(), Signal(32)
    # The question falls for a cycle when it changes, as the tracker's contract demands.
    m.d.comb += [query.valid.eq(~changed), Cat(query.flow, query.port, query.op).eq(select)]
    m.d.sync += asked.eq(query.valid)
    with m.If(query.answered & asked):
        m.d.sync += count.eq(query.count)
    return count


def connect_report(m, given, report):
    """Give the tracker what it keeps of an arrival, or of a message that has begun."""
    m.d.comb += [
        getattr(report, name).eq(getattr(given, name)) for name in report.signature.members
    ]


class DependencyTracker(wiring.Component):
    """Per port, flow and op one count of the sub-messages that are in memory.

    Receivers report; senders and receivers ask. What was reported before a question is read from
    memory, clients taking turns: the answer comes at most `num_clients + 2` cycles after the
    question, and two cycles after its turn. A report that concerns a standing question is answered
    in the next cycle, whoever else asks: waiting for a turn at every hop would lengthen each tree's
    path. Counts are never reset between collectives: each carries the lowest bit of the collective
    it was made in, and one of the collective before reads as 0. An entry is stored with check bits,
    and what is read while a collective runs is held against them.

    Parameters
    ----------
    num_clients : int
        Blocks that ask.
    width : int, optional
        Bits of what is kept; by default those of a count. It may be something else that is 0 as
        long as nothing came in.

    Members
    -------
    running, phase, bank : In(1)
        A collective runs: the bank in use has been cleared; lowest bit of its number; that bank.
    clear, clearing : In(1), Out(1)
        Start to set all counts of the other bank to 0; they are being set to 0, in
        `2 * num_flows` cycles without an arrival, while `bank` must stay.
    arrivals : In(ReportSignature), one per port
        What came in, or began to.
    queries : In(QuerySignature), one per client
    state_error : Out(num_ports)
        Strobe per port: a count that was read has flipped bits.
    """

    def __init__(self, config: Config, *, num_clients: int, width: int | None = None):
        self.config = config
        self.num_clients = num_clients
        self.width = width or config.count_width
        super().__init__(
            {
                "running": In(1),
                "phase": In(1),
                "bank": In(1),
                "clear": In(1),
                "clearing": Out(1),
                "arrivals": In(ReportSignature(self.width)).array(config.num_ports),
                "queries": In(QuerySignature(config, width=self.width)).array(num_clients),
                "state_error": Out(config.num_ports),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.arbiter = arbiter = RoundRobin(count=self.num_clients)
        entry = data.StructLayout({"count": self.width, "phase": 1})
        sweep = Signal(ceil_log2(2 * config.num_flows))
        idle = ~Cat(arrival.valid for arrival in self.arrivals).any()
        with m.If(self.clear):
            m.d.sync += [self.clearing.eq(1), sweep.eq(0)]
        # That a count of the collective before reads as 0 is sound because a collective only ends
        # when every expected message is in: no expected count is ever two collectives old. Another
        # table's counts are kept in another bank, which is cleared before that table may run.
        # Arrivals go first: each memory has one write port.
        with m.Elif(self.clearing & idle):
            m.d.sync += [
                sweep.eq(sweep + 1),
                self.clearing.eq(~(sweep == 2 * config.num_flows - 1)),
            ]

        port, index = Signal(4), Signal(17)
        asked_port = Signal(4)
        m.d.comb += arbiter.advance.eq(1)
        m.d.sync += asked_port.eq(port)
        found_count, count = Signal(self.width), Signal(self.width)
        raw = Signal(entry.size + check_width(entry.size))
        read_now, is_sound = Signal(), Signal()
        # Block memories are slow: what was read is registered once more.
        m.d.sync += count.eq(found_count)
        for number, arrival in enumerate(self.arrivals):
            # What is written in the cycle of a read is overheard: no logic for that case.
            attrs, depth = {"no_rw_check": 1}, 4 * config.num_flows
            memory = Memory(shape=len(raw), depth=depth, init=[], attrs=attrs)
            m.submodules[f"counts_{number}"] = memory
            write, read = memory.write_port(), memory.read_port()
            place = Cat(self.bank, arrival.op, arrival.flow)
            stored = Mux(arrival.valid, Cat(arrival.count, self.phase), 0)
            m.d.comb += [
                write.en.eq(arrival.valid | self.clearing),
                write.addr.eq(Mux(arrival.valid, place, Cat(~self.bank, sweep))),
                write.data.eq(Cat(stored, check_of(stored))),
                read.addr.eq(Cat(self.bank, index)),
            ]
            found = data.View(entry, read.data[: entry.size])
            with m.If(asked_port == number):
                m.d.comb += raw.eq(read.data)
                with m.If(found.phase == self.phase):
                    m.d.comb += found_count.eq(found.count)
        asked = []
        for client, query in enumerate(self.queries):
            m.d.comb += arbiter.requests[client].eq(query.valid)
            asked.append(self._serve(m, client, query, arbiter.granted[client], count))
        # One at most is granted.
        m.d.comb += Cat(port, index, is_sound).eq(reduce(or_, asked))
        m.d.comb += read_now.eq(self.running & is_sound)
        self._check(m, raw, entry.size, asked_port, read_now)
        return m

    def _serve(self, m, client, query, granted, count):
        """Answer a client by memory or by what is overheard; returns what it asks, if granted."""
        concerned, overheard, newest = self._overhear(m, client, query)
        answering = Signal(2, name=f"answering_{client}")
        # What was read does not answer the next question, nor where it is older than a report.
        standing = answering[0] & query.valid & ~overheard
        m.d.sync += answering.eq(Cat(granted, standing))
        m.d.comb += [
            query.answered.eq(answering[1] | overheard),
            query.count.eq(Mux(overheard, newest, count)),
        ]
        # What is overheard in this cycle is written in it, too: memory may read anything.
        return Mux(granted, Cat(query.port, query.op, query.flow, ~concerned), 0)

    def _check(self, m, raw, size, asked_port, read_now):
        """Hold what was read against its check bits, a cycle after it was read."""
        held, port, reading, known = Signal.like(raw), Signal.like(asked_port), Signal(), Signal()
        m.d.sync += [reading.eq(read_now), known.eq(reading), held.eq(raw), port.eq(asked_port)]
        with m.If(known & ~is_intact(held[:size], held[size:])):
            m.d.comb += self.state_error.eq(1 << port)

    def _overhear(self, m, client, query):
        """Whether a port reports what a client asks for; that it did, a cycle later; its count."""
        concerned = Signal(name=f"concerned_{client}")
        overheard = Signal(name=f"overheard_{client}")
        newest = Signal(self.width, name=f"newest_{client}", reset_less=True)
        m.d.sync += overheard.eq(concerned)
        # At most one report fits, since the port is part of the question.
        for number, arrival in enumerate(self.arrivals):
            here = (query.port == number) & (query.op == arrival.op)
            with m.If(query.valid & arrival.valid & here & (query.flow == arrival.flow)):
                m.d.comb += concerned.eq(1)
                m.d.sync += newest.eq(arrival.count)
        return concerned, overheard, newest
