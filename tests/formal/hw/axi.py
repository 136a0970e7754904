"""Properties of the AXI4 managers: lawful, and nothing but what was asked."""

from amaranth import Cat, Mux, Signal

from multitree.hw.axi.bursts import AxiReader, AxiWriter
from multitree.hw.axi.channels import INCR, NORMAL_NON_BUFFERABLE, OKAY
from tests.formal.bench import holds, sets, transfer

__all__ = ["Count", "answers", "manager"]

FLIT_BYTES = 2
_SHIFT = FLIT_BYTES.bit_length() - 1
_NAMES = "address_width depth gather_cycles page_flits beats"


def manager(m, kind, *, address_width, depth, gather_cycles, page_flits, beats):
    """A manager whose channel asks whatever it likes; its pages and longest bursts are given."""
    m.replace("multitree.hw.axi.bursts.PAGE_BYTES", page_flits * FLIT_BYTES)
    m.replace("multitree.hw.axi.bursts.MAX_BEATS", beats)
    m.submodules.block = block = kind(
        address_width=address_width, flit_bytes=FLIT_BYTES, depth=depth, gather_cycles=gather_cycles
    )
    m.drive(block.channel.valid, block.channel.address)
    return block


def answers(m, bus, channel):
    """Answers of any kind in any cycle: R or B; returns whether one comes and whether it is bad."""
    comes, response, ready = (getattr(bus, channel + name) for name in ("valid", "resp", "ready"))
    m.drive(comes, response)
    m.check(ready)
    return comes, response != OKAY


class Count:
    """What is inside: `held` before this cycle, `now` with what comes in it.

    Checks that never more than `capacity` are inside, and that nothing leaves that is not there.
    """

    def __init__(self, m, put, take, *, capacity, name):
        self.held = Signal(range(capacity + 2), name=f"{name}_held")
        self.now = Signal(range(2 * capacity + 3), name=f"{name}_now")
        m.d.comb += self.now.eq(self.held + put)
        m.d.sync += self.held.eq(self.now - take)
        m.check(self.held <= capacity, take <= self.now)


class _Bursts:
    """Follows one arbitrary request to its beat of a burst on AR or AW.

    Checks that the beats of the bursts are the requests, in order, each once, and so that no
    beat has an address that nobody asked for; and the standard's rules for each burst.

    Members: `taken` (a request is taken), `goes` (a burst goes), `beats` (as many beats, or 0),
    `entered` (the followed request is taken), `mine` (its burst goes), `ends` (with it, then).
    """

    def __init__(self, m, block, prefix, *, depth, page_flits, beats):
        channel = block.channel
        burst = {
            name: getattr(block.bus, f"{prefix}{name}")
            for name in ["id", "addr", "len", "size", "burst", "cache", "prot", "valid", "ready"]
        }
        self.taken = transfer(channel)
        self.goes = burst["valid"] & burst["ready"]
        self.beats = Mux(self.goes, burst["len"] + 1, 0)
        inside, seen, value = Signal(), Signal(), Signal.like(channel.address, name="followed")
        ahead = Signal(range(depth + 1))
        waiting = Count(m, self.taken, self.beats, capacity=depth, name="waiting")
        self.entered = self.taken & m.free("pick") & ~seen
        self.mine = self.goes & inside & (ahead <= burst["len"])
        self.ends = ahead == burst["len"]
        with m.If(self.entered):
            m.d.sync += [seen.eq(1), inside.eq(1), value.eq(channel.address)]
            m.d.sync += ahead.eq(waiting.held - self.beats)
        with m.Elif(inside & self.goes):
            m.d.sync += [inside.eq(~self.mine), ahead.eq(ahead - self.beats)]
        first = burst["addr"] >> _SHIFT
        m.check(~self.mine | (first + ahead == value))
        in_page = first & (page_flits - 1)
        m.check(~burst["valid"] | (in_page + burst["len"] < page_flits))
        m.check(~burst["valid"] | (burst["len"] < beats))
        m.check(burst["addr"] & (FLIT_BYTES - 1) == 0)
        kind = (burst["size"] == _SHIFT) & (burst["burst"] == INCR) & (burst["id"] == 0)
        m.check(kind & (burst["cache"] == NORMAL_NON_BUFFERABLE) & (burst["prot"] == 0))
        m.check(m.stays(burst["valid"], burst["ready"], Cat(burst["addr"], burst["len"])))
        m.cover("burst", self.goes & (burst["len"] == beats - 1))
        m.cover("page", self.mine & (ahead != 0) & (in_page + burst["len"] == page_flits - 1))


@holds("axi.read_rules", *sets(_NAMES, (4, 5, 1, 4, 2), (5, 6, 0, 8, 4), (6, 8, 3, 8, 4)))
def read_rules(m, *, depth, page_flits, beats, **sizes):
    """AR steady, in a page, beats are the reads in order; data once; errors where they are.

    Any requests; a memory that gives the beats it was asked for, when and how it likes.
    """
    block = manager(m, AxiReader, depth=depth, page_flits=page_flits, beats=beats, **sizes)
    bus, channel = block.bus, block.channel
    m.drive(bus.arready, bus.rdata)
    comes, bad = answers(m, bus, "r")
    bursts = _Bursts(m, block, "ar", depth=depth, page_flits=page_flits, beats=beats)
    missing = Count(m, bursts.beats, comes, capacity=depth, name="missing")
    m.assume(~comes | (missing.now != 0))
    Count(m, bursts.taken, channel.data_valid, capacity=depth, name="unread")
    m.check((channel.data_valid == comes) & (~comes | (channel.data == bus.rdata)))
    m.check(channel.error == (comes & bad))
    m.cover("error", channel.error)


def _acknowledged(m, block, bursts, unanswered, depth):
    """The followed request's acknowledgement comes after the response to its burst."""
    ack, responds = block.channel.ack, block.bus.bvalid
    waits, sent, ahead = Signal(), Signal(), Signal(range(depth + 1))
    answered, before = Signal(), Signal(range(depth + 1))
    unacked = Count(m, bursts.taken, ack, capacity=depth, name="unacked")
    mine = waits & ack & (ahead == 0)
    with m.If(bursts.entered):
        m.d.sync += [waits.eq(1), ahead.eq(unacked.held - ack)]
    with m.Elif(waits & ack):
        m.d.sync += [waits.eq(~mine), ahead.eq(ahead - 1)]
    with m.If(bursts.mine):
        # Responses come in order; the one to this burst may come in the cycle in which it goes.
        m.d.sync += [sent.eq(1), before.eq(unanswered.held - responds)]
        m.d.sync += answered.eq(responds & (unanswered.held == 0))
    with m.Elif(sent & responds):
        m.d.sync += [before.eq(before - 1), answered.eq(answered | (before == 0))]
    m.check(~mine | answered)
    m.cover("acknowledged", mine)


@holds("axi.write_rules", *sets(_NAMES, (3, 3, 1, 4, 2)), quick_depth=8)
def write_rules(m, *, depth, page_flits, beats, **sizes):
    """AW, W steady, in a page, of one length, beats are the writes; acks follow the responses.

    Any writes; a memory that answers bursts that came whole, when and how it likes.
    """
    block = manager(m, AxiWriter, depth=depth, page_flits=page_flits, beats=beats, **sizes)
    bus, channel = block.bus, block.channel
    m.drive(bus.awready, bus.wready, channel.data[:1])
    comes, bad = answers(m, bus, "b")
    bursts = _Bursts(m, block, "aw", depth=depth, page_flits=page_flits, beats=beats)
    moved = bus.wvalid & bus.wready
    unanswered = Count(m, bursts.goes, comes, capacity=depth, name="unanswered")
    unended = Count(m, moved & bus.wlast, comes, capacity=depth, name="unended")
    m.assume(~comes | ((unanswered.now != 0) & (unended.now != 0)))
    m.check(m.stays(bus.wvalid, bus.wready, Cat(bus.wdata[0], bus.wlast)))
    _beats(m, block, bursts, moved, depth)
    _acknowledged(m, block, bursts, unanswered, depth)
    m.check(channel.error == (comes & bad))
    m.cover("error", channel.error)


def _beats(m, block, bursts, moved, depth):
    """The followed request's beat on W: its data, and last exactly if it is so on AW."""
    bus = block.bus
    inside, sent, last = Signal(), Signal(), Signal()
    ends, known = Signal(), Signal()
    ahead, value = Signal(range(depth + 1)), Signal()
    unsent = Count(m, bursts.taken, moved, capacity=depth, name="unsent")
    mine = inside & moved & (ahead == 0)
    with m.If(bursts.entered):
        m.d.sync += [inside.eq(1), value.eq(block.channel.data[0]), ahead.eq(unsent.held - moved)]
    with m.Elif(inside & moved):
        m.d.sync += [inside.eq(~mine), ahead.eq(ahead - 1)]
    with m.If(mine):
        m.d.sync += [sent.eq(1), last.eq(bus.wlast)]
    with m.If(bursts.mine):
        m.d.sync += [known.eq(1), ends.eq(bursts.ends)]
    m.check(~mine | ((bus.wdata[0] == value) & bus.wstrb.all()))
    m.check(~(sent & known) | (last == ends))
    m.cover("W before AW", mine & ~known & ~bursts.mine)
