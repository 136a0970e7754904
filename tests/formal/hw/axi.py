"""Properties of the AXI4 managers: lawful, and nothing but what was asked."""

from amaranth import Cat, Mux, Signal

from multitree.hw.axi.bursts import AxiReader, AxiWriter
from multitree.hw.axi.channels import INCR, NORMAL_NON_BUFFERABLE, OKAY
from tests.formal.bench import holds, sets, steady

__all__ = ["Count", "answers", "manager"]

FLIT_BYTES = 2
_SHIFT = FLIT_BYTES.bit_length() - 1
_NAMES = "address_width depth gather_cycles page_flits beats"


def manager(bench, kind, *, address_width, depth, gather_cycles, page_flits, beats):
    """A manager whose channel asks whatever it likes; its pages and longest bursts are given."""
    bench.replace("multitree.hw.axi.bursts.PAGE_BYTES", page_flits * FLIT_BYTES)
    bench.replace("multitree.hw.axi.bursts.MAX_BEATS", beats)
    bench.m.submodules.block = block = kind(
        address_width=address_width,
        flit_bytes=FLIT_BYTES,
        depth=depth,
        gather_cycles=gather_cycles,
    )
    asks, address = bench.free("asks"), bench.free("address", address_width)
    bench.m.d.comb += [block.channel.valid.eq(asks), block.channel.address.eq(address)]
    return block


def answers(bench, bus, channel):
    """Answers of any kind in any cycle: R or B; returns whether one comes and whether it is bad."""
    comes, response = bench.free(f"{channel}valid"), bench.free(f"{channel}resp", 2)
    bench.m.d.comb += [
        getattr(bus, f"{channel}valid").eq(comes),
        getattr(bus, f"{channel}resp").eq(response),
    ]
    bench.check(getattr(bus, f"{channel}ready"))
    return comes, response != OKAY


class Count:
    """What is inside: `held` before this cycle, `now` with what comes in it.

    Checks that never more than `capacity` are inside, and that nothing leaves that is not there.
    """

    def __init__(self, bench, put, take, *, capacity, name):
        self.held = Signal(range(capacity + 2), name=f"{name}_held")
        self.now = Signal(range(2 * capacity + 3), name=f"{name}_now")
        bench.m.d.comb += self.now.eq(self.held + put)
        bench.m.d.sync += self.held.eq(self.now - take)
        bench.check(self.held <= capacity)
        bench.check(take <= self.now)


class _Bursts:
    """Follows one arbitrary request to its beat of a burst on AR or AW.

    Checks that the beats of the bursts are the requests, in order, each once, and so that no
    beat has an address that nobody asked for; and the standard's rules for each burst.

    Members: `taken` (a request is taken), `goes` (a burst goes), `beats` (as many beats, or 0),
    `entered` (the followed request is taken), `mine` (its burst goes), `ends` (with it, then).
    """

    def __init__(self, bench, block, prefix, *, depth, page_flits, beats):
        m, channel = bench.m, block.channel
        burst = {
            name: getattr(block.bus, f"{prefix}{name}")
            for name in ["id", "addr", "len", "size", "burst", "cache", "prot", "valid", "ready"]
        }
        self.taken = channel.valid & channel.ready
        self.goes = burst["valid"] & burst["ready"]
        self.beats = Mux(self.goes, burst["len"] + 1, 0)
        inside, seen, value = Signal(), Signal(), Signal.like(channel.address, name="followed")
        ahead = Signal(range(depth + 1))
        waiting = Count(bench, self.taken, self.beats, capacity=depth, name="waiting")
        self.entered = self.taken & bench.free("pick") & ~seen
        self.mine = self.goes & inside & (ahead <= burst["len"])
        self.ends = ahead == burst["len"]
        with m.If(self.entered):
            m.d.sync += [seen.eq(1), inside.eq(1), value.eq(channel.address)]
            m.d.sync += ahead.eq(waiting.held - self.beats)
        with m.Elif(inside & self.goes):
            m.d.sync += [inside.eq(~self.mine), ahead.eq(ahead - self.beats)]
        first = burst["addr"] >> _SHIFT
        bench.check(~self.mine | (first + ahead == value))
        in_page = first & (page_flits - 1)
        bench.check(~burst["valid"] | (in_page + burst["len"] < page_flits))
        bench.check(~burst["valid"] | (burst["len"] < beats))
        bench.check(burst["addr"] & (FLIT_BYTES - 1) == 0)
        kind = (burst["size"] == _SHIFT) & (burst["burst"] == INCR) & (burst["id"] == 0)
        bench.check(kind & (burst["cache"] == NORMAL_NON_BUFFERABLE) & (burst["prot"] == 0))
        steady(bench, burst["valid"], burst["ready"], Cat(burst["addr"], burst["len"]))
        bench.cover("burst", self.goes & (burst["len"] == beats - 1))
        bench.cover("page", self.mine & (ahead != 0) & (in_page + burst["len"] == page_flits - 1))


@holds("axi.read_rules", *sets(_NAMES, (4, 5, 1, 4, 2), (5, 6, 0, 8, 4), (6, 8, 3, 8, 4)))
def read_rules(bench, *, depth, page_flits, beats, **sizes):
    """AR steady, in a page, beats are the reads in order; data once; errors where they are.

    Any requests; a memory that gives the beats it was asked for, when and how it likes.
    """
    block = manager(bench, AxiReader, depth=depth, page_flits=page_flits, beats=beats, **sizes)
    bus, channel = block.bus, block.channel
    data = bench.free("rdata", 8 * FLIT_BYTES)
    bench.m.d.comb += [bus.arready.eq(bench.free("arready")), bus.rdata.eq(data)]
    comes, bad = answers(bench, bus, "r")
    bursts = _Bursts(bench, block, "ar", depth=depth, page_flits=page_flits, beats=beats)
    missing = Count(bench, bursts.beats, comes, capacity=depth, name="missing")
    bench.assume(~comes | (missing.now != 0))
    Count(bench, bursts.taken, channel.data_valid, capacity=depth, name="unread")
    bench.check((channel.data_valid == comes) & (~comes | (channel.data == data)))
    bench.check(channel.error == (comes & bad))
    bench.cover("error", channel.error)


def _acknowledged(bench, block, bursts, unanswered, depth):
    """The followed request's acknowledgement comes after the response to its burst."""
    m, ack, responds = bench.m, block.channel.ack, block.bus.bvalid
    waits, sent, ahead = Signal(), Signal(), Signal(range(depth + 1))
    answered, before = Signal(), Signal(range(depth + 1))
    unacked = Count(bench, bursts.taken, ack, capacity=depth, name="unacked")
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
    bench.check(~mine | answered)
    bench.cover("acknowledged", mine)


@holds("axi.write_rules", *sets(_NAMES, (3, 3, 1, 4, 2)), quick_depth=8)
def write_rules(bench, *, depth, page_flits, beats, **sizes):
    """AW, W steady, in a page, of one length, beats are the writes; acks follow the responses.

    Any writes; a memory that answers bursts that came whole, when and how it likes.
    """
    block = manager(bench, AxiWriter, depth=depth, page_flits=page_flits, beats=beats, **sizes)
    m, bus, channel = bench.m, block.bus, block.channel
    m.d.comb += [bus.awready.eq(bench.free("awready")), bus.wready.eq(bench.free("wready"))]
    m.d.comb += channel.data.eq(bench.free("data"))
    comes, bad = answers(bench, bus, "b")
    bursts = _Bursts(bench, block, "aw", depth=depth, page_flits=page_flits, beats=beats)
    moved = bus.wvalid & bus.wready
    unanswered = Count(bench, bursts.goes, comes, capacity=depth, name="unanswered")
    unended = Count(bench, moved & bus.wlast, comes, capacity=depth, name="unended")
    bench.assume(~comes | ((unanswered.now != 0) & (unended.now != 0)))
    steady(bench, bus.wvalid, bus.wready, Cat(bus.wdata[0], bus.wlast))
    _beats(bench, block, bursts, moved, depth)
    _acknowledged(bench, block, bursts, unanswered, depth)
    bench.check(channel.error == (comes & bad))
    bench.cover("error", channel.error)


def _beats(bench, block, bursts, moved, depth):
    """The followed request's beat on W: its data, and last exactly if it is so on AW."""
    m, bus = bench.m, block.bus
    inside, sent, last = Signal(), Signal(), Signal()
    ends, known = Signal(), Signal()
    ahead, value = Signal(range(depth + 1)), Signal()
    unsent = Count(bench, bursts.taken, moved, capacity=depth, name="unsent")
    mine = inside & moved & (ahead == 0)
    with m.If(bursts.entered):
        m.d.sync += [inside.eq(1), value.eq(block.channel.data[0]), ahead.eq(unsent.held - moved)]
    with m.Elif(inside & moved):
        m.d.sync += [inside.eq(~mine), ahead.eq(ahead - 1)]
    with m.If(mine):
        m.d.sync += [sent.eq(1), last.eq(bus.wlast)]
    with m.If(bursts.mine):
        m.d.sync += [known.eq(1), ends.eq(bursts.ends)]
    bench.check(~mine | ((bus.wdata[0] == value) & bus.wstrb.all()))
    bench.check(~(sent & known) | (last == ends))
    bench.cover("W before AW", mine & ~known & ~bursts.mine)
