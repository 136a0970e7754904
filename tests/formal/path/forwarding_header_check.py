"""Properties of messages in hand where flits are forwarded, whatever was read."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data

from multitree.hw.check_bits import Checked
from multitree.hw.link.link import Kind
from multitree.hw.stream import Register
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import OP_GATHER
from multitree.nic.forward.positions import beginning_layout, position_width
from multitree.nic.receive.forwarding_header_check import ForwardingHeaderCheck
from multitree.nic.receive.head_reader import TURN_WIDTH, HeadReader
from tests.formal.bench import holds, sets, transfer
from tests.formal.path.header_check import small_config
from tests.formal.stand_ins import stand_in

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
        m.d.comb += pair.i.payload.eq(self.i.payload.as_value())
        m.d.comb += [pair.i.valid.eq(self.i.valid), self.i.ready.eq(pair.i.ready)]
        m.d.comb += self.o.payload.as_value().eq(pair.o.payload)
        m.d.comb += [self.o.valid.eq(pair.o.valid), pair.o.ready.eq(self.o.ready)]
        m.d.comb += self.level.eq(pair.o.valid)
        return m


def _header_check(m, config, queue=_Place):
    """The block with free messages and flits; what faults stays faulted."""
    reader = stand_in(m, _BLOCK, HeadReader, config)
    m.replace(f"{_BLOCK}.Checked", queue)
    m.submodules.block = block = ForwardingHeaderCheck(config)
    faulted, running = m.ever(block.fault.any() | m.free("fault_elsewhere")), Signal()
    # A collective begins when it likes, and ends with a fault or when it is over.
    over = m.free("over")
    m.d.sync += running.eq((running | m.free("starts")) & ~over)
    m.drive(block.items.ready, block.jobs.ready, block.drained)
    m.fix(block.run.sequence, block.run.packets)
    m.d.comb += [block.run.running.eq(running & ~faulted), block.run.faulted.eq(faulted)]
    flit, message = reader.ahead, reader.messages
    m.drive(flit.valid, flit.payload, message.valid, message.payload)
    m.patient(flit, message)
    # What may be payload says itself of which kind it is, and which message it belongs to.
    data_flit, kind = flit.payload.flit, flit.payload.flit.kind
    is_payload = (kind == Kind.BODY) | (kind == Kind.TAIL)
    said = Cat(kind, flit.payload.turn)
    m.assume(~is_payload | (data_flit.payload[: len(said)] == said))
    # That is `head_reader.window`.
    said = message.payload
    m.assume((said.code != 0) | (said.single == (said.size == 0)))
    counts = _Counts(m, block, message)
    # A collective is over when all its messages are in; what is behind waits in the link.
    m.assume(~over | ((counts.entered == counts.done) & ~message.valid & ~flit.valid))
    return block, reader, counts


class _Counts:
    """How many messages were read, and how many of them are done; `ends` as one is."""

    def __init__(self, m, block, message):
        self.entered, self.done = Signal(TURN_WIDTH), Signal(TURN_WIDTH)
        self.moved = transfer(block.items)
        self.ends = (self.moved & block.items.payload.mark.last) | block.empty.valid
        came = transfer(message)
        m.d.sync += [self.entered.eq(self.entered + came), self.done.eq(self.done + self.ends)]


class _Picked:
    """A message that the solver chooses, and how many were in hand before."""

    def __init__(self, m, block, reader, counts):
        self.moved, self.done, ends = counts.moved, counts.done, counts.ends
        self.seen, number = Signal(), Signal(TURN_WIDTH)
        self.value = Signal(reader.messages.payload.shape())
        # Chosen when it is offered: one that passes the queue is in hand a cycle later.
        with m.If(reader.messages.valid & m.free("pick") & ~self.seen):
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
    *sets("wave_width submessage_flits", (0, 2), (1, 4)),
    depth=BOUND_CYCLES,
    quick_depth=12,
)
def messages(m, *, wave_width, submessage_flits):
    """Flits go where their message says, as many as it says, none of one that is wrong."""
    config = small_config(4, submessage_flits, wave_width, 32)
    block, reader, counts = _header_check(m, config)
    picked = _Picked(m, block, reader, counts)
    value, item, mine = picked.value, block.items.payload, picked.is_mine
    moved, empty = picked.moved & mine, block.empty.valid & mine
    shift, wave = submessage_flits.bit_length() - 1, Cat(value.wave) << config.part_width
    named = (item.mark.flow == value.flow) & (item.mark.op == value.op)
    m.check(~(moved | empty) | (value.code == 0))
    m.check(~moved | (named & (item.replace == (value.op == OP_GATHER))))
    m.check(~moved | (item.address == (value.address + picked.place)[:4]))
    m.check(~moved | (picked.place < value.size))
    m.check(~moved | (item.mark.last == (picked.place + 1 == value.size)))
    ends = (picked.place + 1)[:shift] == 0
    m.check(~moved | (item.end == (item.mark.last | ends)))
    m.check(~moved | (item.mark.count == wave + (picked.place >> shift) + 1))
    # Only a tail, or a sub-message's last flit, carries the CRC of what came before it.
    is_end = item.mark.last | (item.end & block.run.packets)
    kind, turn = Mux(is_end, Kind.TAIL.value, Kind.BODY.value), (picked.done + 1)[:TURN_WIDTH]
    m.check(~moved | (item.payload[: 3 + TURN_WIDTH] == Cat(kind[:2], Const(0, 1), turn)))
    m.check(~empty | (value.single & block.drained))
    m.check(~empty | ((block.empty.flow == value.flow) & (block.empty.op == value.op)))
    m.check(~empty | (block.empty.count == wave + 1))
    m.check(~(block.items.valid | block.empty.valid) | block.run.running)
    m.cover("second", moved & item.mark.last & (picked.done == 1) & (value.size == 3))
    m.cover("empty", empty & (picked.done == 1))


@holds(
    "header_check.jobs", {"wave_width": 0}, {"wave_width": 1}, depth=BOUND_CYCLES, quick_depth=12
)
def jobs(m, *, wave_width):
    """A message is announced once with its place among all; none passes before its job."""
    config = small_config(4, 2, wave_width, 32)
    block, reader, counts = _header_check(m, config)
    picked = _Picked(m, block, reader, counts)
    value, job, report = picked.value, block.jobs.payload, block.report
    taken = transfer(block.jobs)
    begins = data.View(beginning_layout(config), report.count)
    # How many flits passed; whether the message in hand has its job, and is announced.
    passed, given, announced = Signal(position_width(config)), Signal(), Signal()
    was_empty = m.past(block.empty.valid)
    m.d.sync += [passed.eq(passed + picked.moved), given.eq((given | taken) & ~counts.ends)]
    begun = report.valid & ~was_empty
    m.d.sync += announced.eq((announced | begun) & ~counts.ends)
    with m.If(~block.run.running):
        m.d.sync += [passed.eq(0), given.eq(0), announced.eq(0)]
    starts = picked.moved & (picked.place == 0)
    m.check(~(picked.moved | block.empty.valid) | given | taken)
    m.check(~starts | announced | begun)
    m.check(~(taken & given) & ~(begun & announced))
    m.check(~begun | ((begins.position == passed) & begins.begun))
    m.check(~was_empty | report.valid)
    of_mine = (begun & picked.is_mine) | m.past(block.empty.valid & picked.is_mine)
    m.check(~of_mine | ((report.flow == value.flow) & (report.op == value.op)))
    m.check(~(of_mine & (wave_width != 0)) | (begins.wave == value.wave))
    mine = taken & picked.is_mine
    m.check(~mine | ((job.flow == value.flow) & (job.op == (value.op & ~value.single))))
    m.check(~mine | ((job.base == value.address) & (job.size == value.size)))
    m.check(~mine | ((job.needs == value.follows) & (job.need_port == value.before)))
    m.check(~(mine & (wave_width != 0)) | (job.wave == value.wave))
    m.cover("second", mine & (picked.done == 1) & (passed == 2) & job.needs)


@holds("header_check.strays", {}, depth=12, quick_depth=10)
def strays(m):
    """A flit behind a message's last one, and before the next head, stops all that follow."""
    block, reader, counts = _header_check(m, small_config(4, 2, 0, 32), _Pair)
    m.assume(~block.run.packets)
    turn, flit, message = m.constant("turn", TURN_WIDTH), reader.ahead, reader.messages
    came, done, entered = Signal(4), counts.done, counts.entered
    # That is `head_reader.order`: no flit comes behind the head of a message after its own.
    m.assume(~flit.valid | (flit.payload.turn >= entered + message.valid))
    latest = Signal(TURN_WIDTH)
    m.d.sync += latest.eq(Mux(flit.valid, flit.payload.turn, latest))
    m.assume(~flit.valid | (flit.payload.turn >= latest))
    mine, known, size = flit.payload.turn == turn, Signal(), Signal(4)
    m.d.sync += came.eq(came + (transfer(flit) & mine))
    with m.If(transfer(message) & (entered + 1 == turn)):
        m.d.sync += [known.eq(1), size.eq(message.payload.size)]
    passes = block.items.valid | block.empty.valid
    m.check(~(known & (came > size)) | ~passes | (done < turn))
    blamed = (came > size) & (done == turn) & (block.fault == FaultCode.FRAMING)
    m.cover("behind", known & blamed & (size == 2))
    # Behind the last flit of a message, while the next message's head is read ahead.
    m.cover("hidden", known & (came > size) & (entered > turn) & (done < turn))
    m.cover("single", known & blamed & (size == 2) & (entered > turn) & message.payload.single)
