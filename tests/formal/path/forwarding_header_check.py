"""Properties of messages in hand where flits are forwarded, whatever was read."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data

from multitree.hw.check_bits import Checked
from multitree.hw.link.link import Kind
from multitree.hw.stream import Register
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import OP_GATHER, sequence_width
from multitree.nic.forward.positions import beginning_layout, position_width
from multitree.nic.receive.forwarding_header_check import ForwardingHeaderCheck
from multitree.nic.receive.head_reader import TURN_WIDTH, HeadReader
from tests.formal.bench import driven, holds
from tests.formal.path.header_check import small_config
from tests.formal.stand_ins import hand_out, hollow

_BLOCK = "multitree.nic.receive.forwarding_header_check"
BOUND_CYCLES = 18
"""Cycles searched: two messages of three flits, and one that waits for room, take 14."""


class _Place(Checked):
    """A queue of one place: that deeper ones keep what they hold is proved where they are."""

    def elaborate(self, platform):
        """Full or empty."""
        m = Module()
        came, goes = self.i.payload.as_value(), self.o.payload.as_value()
        full, held = Signal(), Signal(len(came))
        m.d.comb += [self.i.ready.eq(~full), self.o.valid.eq(full), self.level.eq(full)]
        m.d.comb += goes.eq(held)
        with m.If(~full):
            m.d.sync += [full.eq(self.i.valid), held.eq(came)]
        with m.Elif(self.o.ready):
            m.d.sync += full.eq(0)
        return m


class _Pair(Checked):
    """A queue of two places: one flit stands behind another, which waits."""

    def elaborate(self, platform):
        """A register and its spare."""
        m = Module()
        m.submodules.pair = pair = Register(shape=len(self.i.payload.as_value()))
        m.d.comb += [
            pair.i.valid.eq(self.i.valid),
            pair.i.payload.eq(self.i.payload.as_value()),
            self.i.ready.eq(pair.i.ready),
            self.o.valid.eq(pair.o.valid),
            self.o.payload.as_value().eq(pair.o.payload),
            pair.o.ready.eq(self.o.ready),
            self.level.eq(pair.o.valid),
        ]
        return m


def _header_check(bench, config, queue=_Place):
    """The block with free messages and flits; what faults stays faulted."""
    m = bench.m
    reader = hollow(HeadReader)(config)
    hand_out(bench, f"{_BLOCK}.HeadReader", reader)
    bench.replace(f"{_BLOCK}.Checked", queue)
    m.submodules.block = block = ForwardingHeaderCheck(config)
    faulted, running = Signal(), Signal()
    m.d.sync += faulted.eq(faulted | block.fault.any() | bench.free("fault_elsewhere"))
    # A collective begins when it likes, and ends with a fault or when it is over.
    over = bench.free("over")
    m.d.sync += running.eq((running | bench.free("starts")) & ~over)
    m.d.comb += [
        block.run.running.eq(running & ~faulted),
        block.run.faulted.eq(faulted),
        block.run.sequence.eq(bench.constant("sequence", sequence_width(config))),
        block.run.packets.eq(bench.constant("packets")),
        block.items.ready.eq(bench.free("items_ready")),
        block.jobs.ready.eq(bench.free("jobs_ready")),
        block.drained.eq(bench.free("drained")),
    ]
    flit = reader.ahead
    driven(bench, "ahead", flit)
    # What may be payload says itself of which kind it is, and which message it belongs to.
    data_flit, kind = flit.payload.flit, flit.payload.flit.kind
    is_payload = (kind == Kind.BODY) | (kind == Kind.TAIL)
    said = Cat(kind, flit.payload.turn)
    bench.assume(~is_payload | (data_flit.payload[: len(said)] == said))
    waits = bench.past(flit.valid & ~flit.ready)
    bench.assume(
        ~waits | (flit.valid & (flit.payload.as_value() == bench.past(flit.payload.as_value())))
    )
    driven(bench, "messages", reader.messages)
    message = reader.messages
    waits = bench.past(message.valid & ~message.ready)
    payload = message.payload.as_value()
    bench.assume(~waits | (message.valid & (payload == bench.past(payload))))
    # That is `head_reader.window`.
    said = message.payload
    bench.assume((said.code != 0) | (said.single == (said.size == 0)))
    counts = _Counts(m, block, message)
    # A collective is over when all its messages are in; what is behind waits in the link.
    bench.assume(~over | ((counts.entered == counts.done) & ~message.valid & ~flit.valid))
    return block, reader, counts


class _Counts:
    """How many messages were read, and how many of them are done; `ends` as one is."""

    def __init__(self, m, block, message):
        self.entered, self.done = Signal(TURN_WIDTH), Signal(TURN_WIDTH)
        self.moved = block.items.valid & block.items.ready
        self.ends = (self.moved & block.items.payload.mark.last) | block.empty.valid
        came = message.valid & message.ready
        m.d.sync += [self.entered.eq(self.entered + came), self.done.eq(self.done + self.ends)]


class _Picked:
    """A message that the solver chooses, and how many were in hand before."""

    def __init__(self, bench, block, reader, counts):
        m = bench.m
        self.moved, self.done, ends = counts.moved, counts.done, counts.ends
        self.seen, number = Signal(), Signal(TURN_WIDTH)
        self.value = Signal(reader.messages.payload.shape())
        # Chosen when it is offered: one that passes the queue is in hand a cycle later.
        with m.If(reader.messages.valid & bench.free("pick") & ~self.seen):
            m.d.sync += [self.seen.eq(1), number.eq(counts.entered)]
            m.d.sync += self.value.eq(reader.messages.payload)
        gone = Signal()
        self.is_mine = self.seen & ~gone & (self.done == number)
        m.d.sync += gone.eq(gone | (self.is_mine & ends))
        self.place = Signal(block.config.address_width + 1)
        with m.If(ends):
            m.d.sync += self.place.eq(0)
        with m.Elif(self.moved):
            m.d.sync += self.place.eq(self.place + 1)


@holds(
    "header_check.messages",
    {"wave_width": 0, "submessage_flits": 2},
    {"wave_width": 1, "submessage_flits": 4},
    depth=BOUND_CYCLES,
    quick_depth=12,
)
def messages(bench, *, wave_width, submessage_flits):
    """Flits go where their message says, as many as it says, none of one that is wrong."""
    config = small_config(4, submessage_flits, wave_width, 32)
    block, reader, counts = _header_check(bench, config)
    picked = _Picked(bench, block, reader, counts)
    value, item, mine = picked.value, block.items.payload, picked.is_mine
    moved, empty = picked.moved & mine, block.empty.valid & mine
    shift, wave = submessage_flits.bit_length() - 1, Cat(value.wave) << config.part_width
    named = (item.mark.flow == value.flow) & (item.mark.op == value.op)
    bench.check(~(moved | empty) | (value.code == 0))
    bench.check(~moved | (named & (item.replace == (value.op == OP_GATHER))))
    bench.check(~moved | (item.address == (value.address + picked.place)[:4]))
    bench.check(~moved | (picked.place < value.size))
    bench.check(~moved | (item.mark.last == (picked.place + 1 == value.size)))
    ends = (picked.place + 1)[:shift] == 0
    bench.check(~moved | (item.end == (item.mark.last | ends)))
    bench.check(~moved | (item.mark.count == wave + (picked.place >> shift) + 1))
    # Only a tail, or a sub-message's last flit, carries the CRC of what came before it.
    is_end = item.mark.last | (item.end & block.run.packets)
    kind, turn = Mux(is_end, Kind.TAIL.value, Kind.BODY.value), (picked.done + 1)[:TURN_WIDTH]
    bench.check(~moved | (item.payload[: 3 + TURN_WIDTH] == Cat(kind[:2], Const(0, 1), turn)))
    bench.check(~empty | (value.single & block.drained))
    bench.check(~empty | ((block.empty.flow == value.flow) & (block.empty.op == value.op)))
    bench.check(~empty | (block.empty.count == wave + 1))
    bench.check(~(block.items.valid | block.empty.valid) | block.run.running)
    bench.cover("second", moved & item.mark.last & (picked.done == 1) & (value.size == 3))
    bench.cover("empty", empty & (picked.done == 1))


@holds(
    "header_check.jobs", {"wave_width": 0}, {"wave_width": 1}, depth=BOUND_CYCLES, quick_depth=12
)
def jobs(bench, *, wave_width):
    """A message is announced once with its place among all; none passes before its job."""
    m, config = bench.m, small_config(4, 2, wave_width, 32)
    block, reader, counts = _header_check(bench, config)
    picked = _Picked(bench, block, reader, counts)
    value, job, report = picked.value, block.jobs.payload, block.report
    taken = block.jobs.valid & block.jobs.ready
    begins = data.View(beginning_layout(config), report.count)
    # How many flits passed; whether the message in hand has its job, and is announced.
    passed, given, announced = Signal(position_width(config)), Signal(), Signal()
    was_empty = bench.past(block.empty.valid)
    m.d.sync += [passed.eq(passed + picked.moved), given.eq((given | taken) & ~counts.ends)]
    begun = report.valid & ~was_empty
    m.d.sync += announced.eq((announced | begun) & ~counts.ends)
    with m.If(~block.run.running):
        m.d.sync += [passed.eq(0), given.eq(0), announced.eq(0)]
    starts = picked.moved & (picked.place == 0)
    bench.check(~(picked.moved | block.empty.valid) | given | taken)
    bench.check(~starts | announced | begun)
    bench.check(~(taken & given) & ~(begun & announced))
    bench.check(~begun | ((begins.position == passed) & begins.begun))
    bench.check(~was_empty | report.valid)
    of_mine = (begun & picked.is_mine) | bench.past(block.empty.valid & picked.is_mine)
    bench.check(~of_mine | ((report.flow == value.flow) & (report.op == value.op)))
    bench.check(~(of_mine & (wave_width != 0)) | (begins.wave == value.wave))
    mine = taken & picked.is_mine
    bench.check(~mine | ((job.flow == value.flow) & (job.op == (value.op & ~value.single))))
    bench.check(~mine | ((job.base == value.address) & (job.size == value.size)))
    bench.check(~mine | ((job.needs == value.follows) & (job.need_port == value.before)))
    bench.check(~(mine & (wave_width != 0)) | (job.wave == value.wave))
    bench.cover("second", mine & (picked.done == 1) & (passed == 2) & job.needs)


@holds("header_check.strays", {}, depth=12, quick_depth=10)
def strays(bench):
    """A flit behind a message's last one, and before the next head, stops all that follow."""
    m = bench.m
    block, reader, counts = _header_check(bench, small_config(4, 2, 0, 32), _Pair)
    bench.assume(~block.run.packets)
    turn, flit, message = bench.constant("turn", TURN_WIDTH), reader.ahead, reader.messages
    came, done, entered = Signal(4), counts.done, counts.entered
    # That is `head_reader.order`: no flit comes behind the head of a message after its own.
    bench.assume(~flit.valid | (flit.payload.turn >= entered + message.valid))
    latest = Signal(TURN_WIDTH)
    m.d.sync += latest.eq(Mux(flit.valid, flit.payload.turn, latest))
    bench.assume(~flit.valid | (flit.payload.turn >= latest))
    mine, known, size = flit.payload.turn == turn, Signal(), Signal(4)
    m.d.sync += came.eq(came + (flit.valid & flit.ready & mine))
    with m.If(message.valid & message.ready & (entered + 1 == turn)):
        m.d.sync += [known.eq(1), size.eq(message.payload.size)]
    passes = block.items.valid | block.empty.valid
    bench.check(~(known & (came > size)) | ~passes | (done < turn))
    blamed = (came > size) & (done == turn) & (block.fault == FaultCode.FRAMING)
    bench.cover("behind", known & blamed & (size == 2))
    # Behind the last flit of a message, while the next message's head is read ahead.
    bench.cover("hidden", known & (came > size) & (entered > turn) & (done < turn))
    bench.cover("single", known & blamed & (size == 2) & (entered > turn) & message.payload.single)
