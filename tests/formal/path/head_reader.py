"""Properties of heads that are read ahead: each message once, and its own place."""

from amaranth import Cat, Mux, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.control.checker import FlowCheck
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import sequence_width
from multitree.nic.layouts import FLOW_ENTRY, head_layout
from multitree.nic.receive.head_reader import HeadReader
from tests.formal.bench import driven, holds
from tests.formal.path.header_check import small_config

_SIZES = ({"address_width": 4}, {"address_width": 8})

WAVES_CYCLES = 22
"""Cycles searched for waves and for heads: two of them, and what is beyond, take 14."""


def _head_reader(bench, config, sequence):
    """The block with free flits, grants and state; what faults stays faulted."""
    m = bench.m
    m.submodules.block = block = HeadReader(config)
    driven(bench, "flits", block.flits)
    faulted = Signal()
    m.d.sync += faulted.eq(faulted | bench.free("fault_elsewhere"))
    m.d.comb += [
        block.run.running.eq(bench.free("running") & ~faulted),
        block.run.faulted.eq(faulted),
        block.run.sequence.eq(sequence),
        block.run.num_flows.eq(bench.free("num_flows", 17)),
        block.run.window_base.eq(bench.constant("window_base", config.address_width)),
        block.run.bank.eq(bench.constant("bank")),
        block.port.eq(bench.constant("port", 1)),
        block.lookup.intact.eq(bench.free("intact")),
        block.lookup.granted.eq(block.lookup.valid & bench.free("granted")),
        block.messages.ready.eq(bench.free("messages_ready")),
        block.ahead.ready.eq(bench.free("ahead_ready")),
    ]
    bench.assume(block.run.num_flows <= config.num_flows)
    return block


@holds("head_reader.window", *_SIZES[:1])
def window(bench, *, address_width):
    """A message that is right lies in the window, and follows the one before it in its flow.

    Whatever an entry that passes the check and whatever the flits say.
    """
    m, config = bench.m, small_config(address_width, 2, forward_flits=32)
    block = _head_reader(bench, config, bench.free("sequence", sequence_width(config)))
    m.submodules.flow_check = check = FlowCheck(config)
    entry = data.View(FLOW_ENTRY, bench.free("entry", FLOW_ENTRY.size))
    window_flits = bench.constant("window_flits", address_width)
    m.d.comb += [
        check.entry.eq(entry),
        block.lookup.entry.eq(entry),
        check.window_flits.eq(window_flits),
    ]
    bench.assume(check.code == 0)
    end = block.run.window_base + window_flits
    bench.assume(end <= 1 << address_width)
    message, right = block.messages.payload, Signal()
    m.d.comb += right.eq(block.messages.valid & (message.code == 0))
    # An empty chunk may begin behind the last address.
    inside = (message.address >= block.run.window_base) | (message.size == 0)
    bench.check(~right | inside)
    bench.check(~right | ((message.address + message.size) <= end))
    # A message without payload is one of a flow of none, and only that.
    bench.check(~right | (message.single == (message.size == 0)))
    # What it follows: a contribution the child before its own, a result the last child.
    children = Signal(FLOW_ENTRY["children"].shape)
    with m.If(bench.past(bench.past(block.lookup.granted))):
        m.d.sync += children.eq(entry.children)
    follows, port = Signal(), Signal(4)
    for k in range(8):
        present = children[k] != 15
        is_last = present if k == 7 else present & (children[k + 1] == 15)
        with m.If(is_last & (message.op == 1)):
            m.d.comb += [follows.eq(1), port.eq(children[k])]
        if k:
            with m.If((children[k] == block.port) & (message.op == 0)):
                m.d.comb += [follows.eq(1), port.eq(children[k - 1])]
    bench.check(~right | (message.follows == follows))
    bench.check(~(right & follows) | (message.before == port))
    bench.cover("last", right & ((message.address + message.size) == end) & (window_flits > 3))
    bench.cover("follows", right & follows & (message.op == 1))


@holds("head_reader.once", *_SIZES)
def once(bench, *, address_width):
    """Each message of a flow is right once per collective, none by an entry that flipped."""
    m, config = bench.m, small_config(address_width, 2, forward_flits=32)
    block = _head_reader(bench, config, bench.constant("sequence", sequence_width(config)))
    entry = bench.constant("entry", FLOW_ENTRY.size)
    m.d.comb += block.lookup.entry.eq(data.View(FLOW_ENTRY, entry))
    key = bench.constant("key", 2)
    message, came = block.messages.payload, Signal()
    right = block.messages.valid & (message.code == 0)
    mine = Cat(message.op, message.flow) == key
    m.d.sync += came.eq(came | (right & mine & block.messages.ready))
    bench.check(~(came & right & mine))
    torn = bench.past(bench.past(bench.past(block.lookup.granted)) & ~block.lookup.intact)
    bench.check(~torn | (block.messages.valid & (message.code == FaultCode.TABLE_PARITY)))
    bench.cover("again", came & mine & (message.code == FaultCode.DUPLICATE_MESSAGE))
    bench.cover("message", came & (entry[32:64] == 3))


@holds("head_reader.order", *_SIZES)
def order(bench, *, address_width):
    """Messages say what their heads said, and each flit which of them it belongs to."""
    m, config = bench.m, small_config(address_width, 2, forward_flits=32)
    block = _head_reader(bench, config, bench.free("sequence", sequence_width(config)))
    flit, head = block.flits.payload, head_layout(config)
    said = data.View(head, flit.payload[: head.size])
    begins = ((flit.kind == Kind.HEAD) & ~said.continued) | (flit.kind == Kind.SINGLE)
    taken, passed = (port.valid & port.ready for port in (block.flits, block.ahead))
    offered = block.messages.valid & block.messages.ready
    heads, messages = Signal(4), Signal(4)
    faulted = block.run.faulted
    m.d.sync += [heads.eq(heads + (taken & begins & ~faulted)), messages.eq(messages + offered)]
    bench.check(passed == (taken & ~begins & ~faulted))
    bench.check(~passed | (block.ahead.payload.turn == heads))
    bench.check(~passed | (block.ahead.payload.flit == flit))
    # Two heads at most are neither offered nor taken: one in hand, one that was looked up.
    bench.check((heads - messages)[:4] <= 2)
    # Each message says what its own head did.
    picked, seen, number = bench.free("pick"), Signal(), Signal(4)
    flow, op, single = Signal(16), Signal(), Signal()
    with m.If(taken & begins & picked & ~seen & ~faulted):
        m.d.sync += [seen.eq(1), number.eq(heads), flow.eq(said.flow), op.eq(said.op)]
        m.d.sync += single.eq(flit.kind == Kind.SINGLE)
    message = block.messages.payload
    mine = seen & block.messages.valid & (messages == number)
    same = (message.flow == flow) & (message.op == op) & (message.single == single)
    done = Signal()
    m.d.sync += done.eq(done | (mine & offered))
    bench.check(~mine | done | same)
    bench.cover("second", mine & offered & (number == 1))


@holds("head_reader.heads", *_SIZES[:1], depth=WAVES_CYCLES, quick_depth=16)
def heads(bench, *, address_width):
    """A message is right only if its head is of this collective, of its flow's size and port."""
    m, config = bench.m, small_config(address_width, 2, forward_flits=32)
    block = _head_reader(bench, config, bench.constant("sequence", sequence_width(config)))
    entry = data.View(FLOW_ENTRY, bench.constant("entry", FLOW_ENTRY.size))
    m.d.comb += block.lookup.entry.eq(entry)
    flit, layout = block.flits.payload, head_layout(config)
    said, single = data.View(layout, flit.payload[: layout.size]), flit.kind == Kind.SINGLE
    begins = ((flit.kind == Kind.HEAD) & ~said.continued) | single
    taken = block.flits.valid & block.flits.ready & begins & ~block.run.faulted
    # A head that is stale is taken a cycle after it is seen: it stays so long.
    waits = bench.past(block.flits.valid & ~block.flits.ready)
    bench.assume(~waits | (block.flits.valid & (flit.as_value() == bench.past(flit.as_value()))))
    is_child = Cat(entry.children[k] == block.port for k in range(8)).any()
    fits = (said.size == entry.size[:8]) & (single == (entry.size == 0))
    expected = Mux(said.op == 0, is_child, entry.parent == block.port)
    good = fits & expected & (said.sequence == block.run.sequence)
    # One in hand, and one that was looked up: what was said of each.
    heads, messages, goods = Signal(2), Signal(2), Signal(4)
    offered = block.messages.valid & block.messages.ready
    m.d.sync += [heads.eq(heads + taken), messages.eq(messages + offered)]
    for number in range(4):
        with m.If(taken & (heads == number)):
            m.d.sync += goods[number].eq(good)
    right = block.messages.valid & (block.messages.payload.code == 0)
    bench.check(~right | goods.bit_select(messages, 1))
    size = block.messages.payload.size
    bench.check(~right | (size == entry.size[:address_width]))
    bench.cover("second", right & (messages == 1) & (size == 3))
    bench.cover("wrong", block.messages.valid & ~goods.bit_select(messages, 1))


@holds(
    "head_reader.waves",
    {"address_width": 4, "wave_width": 1},
    {"address_width": 4, "wave_width": 2},
    depth=WAVES_CYCLES,
    quick_depth=16,
)
def waves(bench, *, address_width, wave_width):
    """Each wave of a message is right once, in order, at its own place, which is an address."""
    m, config = bench.m, small_config(address_width, 2, wave_width, 32)
    block = _head_reader(bench, config, bench.constant("sequence", sequence_width(config)))
    run, last_wave = block.run, bench.constant("last_wave", wave_width)
    m.d.comb += run.last_wave.eq(last_wave)
    # One entry for both flows: small enough that no place is beyond the last address but a wave's.
    entry = data.View(FLOW_ENTRY, bench.constant("entry", FLOW_ENTRY.size))
    m.d.comb += block.lookup.entry.eq(entry)
    fits = (entry.base + entry.size + run.window_base) <= 1 << address_width
    bench.assume(fits & (entry.stride < 1 << address_width))
    key = bench.constant("key", 2)
    message, came = block.messages.payload, Signal(wave_width + 1)
    right = block.messages.valid & (message.code == 0) & (Cat(message.op, message.flow) == key)
    m.d.sync += came.eq(came + (right & block.messages.ready))
    place = run.window_base + entry.base + came * entry.stride
    bench.check(~right | ((came <= last_wave) & (message.wave == came)))
    bench.check(~right | message.single | (message.address == place[:address_width]))
    bench.check(~right | message.single | (place < 1 << address_width))
    bench.cover("second", right & (came == 1) & (entry.size == 3))
    bench.cover("beyond", block.messages.valid & (message.code == FaultCode.OUT_OF_WINDOW))
