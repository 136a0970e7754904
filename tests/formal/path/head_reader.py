"""Properties of heads that are read ahead: each message once, and its own place."""

from amaranth import Cat, Mux, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.driver.faults import FaultCode
from multitree.nic.layouts import head_layout
from multitree.nic.receive.head_reader import HeadReader
from tests.formal.bench import holds, sets, transfer
from tests.formal.path.header_check import entry_of_waves, in_window, small_config, with_lookup

_SIZES = ({"address_width": 4}, {"address_width": 8})

WAVES_CYCLES = 22
"""Cycles searched for waves and for heads: two of them, and what is beyond, take 14."""


def _head_reader(m, address_width, wave_width=0):
    """The block behind one that takes what it offers when it likes."""
    config = small_config(address_width, 2, wave_width, forward_flits=32)
    block = with_lookup(m, HeadReader(config), 0)
    m.drive(block.messages.ready, block.ahead.ready)
    m.fix(block.port[:1])
    m.assume(block.run.num_flows <= config.num_flows)
    return block


def _head_of(block):
    """What a flit says if it is a head, and whether one begins a message."""
    flit, layout = block.flits.payload, head_layout(block.config)
    said = data.View(layout, flit.payload[: layout.size])
    return said, ((flit.kind == Kind.HEAD) & ~said.continued) | (flit.kind == Kind.SINGLE)


@holds("head_reader.window", *_SIZES[:1])
def window(m, *, address_width):
    """A message that is right lies in the window, and follows the one before it in its flow.

    Whatever an entry that passes the check and whatever the flits say.
    """
    block = _head_reader(m, address_width)
    entry = block.lookup.entry
    m.drive(block.run.sequence, entry)
    window_flits, end = in_window(m, block.run, entry, block.config)
    message, right = block.messages.payload, Signal()
    m.d.comb += right.eq(block.messages.valid & (message.code == 0))
    # An empty chunk may begin behind the last address.
    inside = (message.address >= block.run.window_base) | (message.size == 0)
    m.check(~right | inside)
    m.check(~right | ((message.address + message.size) <= end))
    # A message without payload is one of a flow of none, and only that.
    m.check(~right | (message.single == (message.size == 0)))
    # What it follows: a contribution the child before its own, a result the last child.
    children = m.latch(m.past(block.lookup.granted, 2), entry.children)
    follows, port = Signal(), Signal(4)
    for k in range(8):
        present = children[k] != 15
        is_last = present if k == 7 else present & (children[k + 1] == 15)
        with m.If(is_last & (message.op == 1)):
            m.d.comb += [follows.eq(1), port.eq(children[k])]
        if k:
            with m.If((children[k] == block.port) & (message.op == 0)):
                m.d.comb += [follows.eq(1), port.eq(children[k - 1])]
    m.check(~right | (message.follows == follows))
    m.check(~(right & follows) | (message.before == port))
    m.cover("last", right & ((message.address + message.size) == end) & (window_flits > 3))
    m.cover("follows", right & follows & (message.op == 1))


@holds("head_reader.once", *_SIZES)
def once(m, *, address_width):
    """Each message of a flow is right once per collective, none by an entry that flipped."""
    block = _head_reader(m, address_width)
    m.fix(block.run.sequence, block.lookup.entry)
    key, message = m.constant("key", 2), block.messages.payload
    right = block.messages.valid & (message.code == 0)
    mine = Cat(message.op, message.flow) == key
    came = m.ever(right & mine & block.messages.ready)
    m.check(~(came & right & mine))
    torn = m.past(m.past(block.lookup.granted, 2) & ~block.lookup.intact)
    m.check(~torn | (block.messages.valid & (message.code == FaultCode.TABLE_PARITY)))
    m.cover("again", came & mine & (message.code == FaultCode.DUPLICATE_MESSAGE))
    m.cover("message", came & (block.lookup.entry.as_value()[32:64] == 3))


@holds("head_reader.order", *_SIZES)
def order(m, *, address_width):
    """Messages say what their heads said, and each flit which of them it belongs to."""
    block = _head_reader(m, address_width)
    m.drive(block.run.sequence)
    flit, (said, begins) = block.flits.payload, _head_of(block)
    taken, passed = (transfer(port) for port in (block.flits, block.ahead))
    offered = transfer(block.messages)
    heads, messages = Signal(4), Signal(4)
    faulted = block.run.faulted
    m.d.sync += [heads.eq(heads + (taken & begins & ~faulted)), messages.eq(messages + offered)]
    m.check(passed == (taken & ~begins & ~faulted))
    m.check(~passed | (block.ahead.payload.turn == heads))
    m.check(~passed | (block.ahead.payload.flit == flit))
    # Two heads at most are neither offered nor taken: one in hand, one that was looked up.
    m.check((heads - messages)[:4] <= 2)
    # Each message says what its own head did.
    picked, seen, number = m.free("pick"), Signal(), Signal(4)
    flow, op, single = Signal(16), Signal(), Signal()
    with m.If(taken & begins & picked & ~seen & ~faulted):
        m.d.sync += [seen.eq(1), number.eq(heads), flow.eq(said.flow), op.eq(said.op)]
        m.d.sync += single.eq(flit.kind == Kind.SINGLE)
    message = block.messages.payload
    mine = seen & block.messages.valid & (messages == number)
    same = (message.flow == flow) & (message.op == op) & (message.single == single)
    m.check(~mine | m.ever(mine & offered) | same)
    m.cover("second", mine & offered & (number == 1))


@holds("head_reader.heads", *_SIZES[:1], depth=WAVES_CYCLES, quick_depth=16)
def heads(m, *, address_width):
    """A message is right only if its head is of this collective, of its flow's size and port."""
    block = _head_reader(m, address_width)
    entry, (said, begins) = block.lookup.entry, _head_of(block)
    m.fix(block.run.sequence, entry)
    single = block.flits.payload.kind == Kind.SINGLE
    taken = transfer(block.flits) & begins & ~block.run.faulted
    # A head that is stale is taken a cycle after it is seen: it stays so long.
    m.patient(block.flits)
    is_child = Cat(entry.children[k] == block.port for k in range(8)).any()
    fits = (said.size == entry.size[:8]) & (single == (entry.size == 0))
    expected = Mux(said.op == 0, is_child, entry.parent == block.port)
    good = fits & expected & (said.sequence == block.run.sequence)
    # One in hand, and one that was looked up: what was said of each.
    heads, messages, goods = Signal(2), Signal(2), Signal(4)
    offered = transfer(block.messages)
    m.d.sync += [heads.eq(heads + taken), messages.eq(messages + offered)]
    for number in range(4):
        with m.If(taken & (heads == number)):
            m.d.sync += goods[number].eq(good)
    right = block.messages.valid & (block.messages.payload.code == 0)
    m.check(~right | goods.bit_select(messages, 1))
    size = block.messages.payload.size
    m.check(~right | (size == entry.size[:address_width]))
    m.cover("second", right & (messages == 1) & (size == 3))
    m.cover("wrong", block.messages.valid & ~goods.bit_select(messages, 1))


@holds(
    "head_reader.waves",
    *sets("address_width wave_width", (4, 1), (4, 2)),
    depth=WAVES_CYCLES,
    quick_depth=16,
)
def waves(m, *, address_width, wave_width):
    """Each wave of a message is right once, in order, at its own place, which is an address."""
    block = _head_reader(m, address_width, wave_width)
    run, entry, last_wave = block.run, entry_of_waves(m, block), block.run.last_wave
    m.fix(run.sequence, last_wave)
    key = m.constant("key", 2)
    message, came = block.messages.payload, Signal(wave_width + 1)
    right = block.messages.valid & (message.code == 0) & (Cat(message.op, message.flow) == key)
    m.d.sync += came.eq(came + (right & block.messages.ready))
    place = run.window_base + entry.base + came * entry.stride
    m.check(~right | ((came <= last_wave) & (message.wave == came)))
    m.check(~right | message.single | (message.address == place[:address_width]))
    m.check(~right | message.single | (place < 1 << address_width))
    m.cover("second", right & (came == 1) & (entry.size == 3))
    m.cover("beyond", block.messages.valid & (message.code == FaultCode.OUT_OF_WINDOW))
