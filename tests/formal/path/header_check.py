"""Properties of what comes in on a port: no address outside the window."""

from amaranth import Cat, Mux, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.control.checker import FlowCheck
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import NO_PORT, sequence_width
from multitree.nic.layouts import FLOW_ENTRY, head_layout
from multitree.nic.receive.duplicate_filter import DuplicateFilter
from multitree.nic.receive.header_check import HeaderCheck
from multitree.nic.receive.receiver import Receiver
from multitree.nic.reduce.reducer import Reducer
from tests.formal.bench import driven, holds
from tests.formal.stand_ins import free_outputs, hand_out, hollow

__all__ = ["small_config"]

WAVES_CYCLES = 22
"""Cycles searched for waves: two of them, of three flits each, take 20."""


@holds(
    "flow_check.window", {"num_ports": 1, "address_width": 4}, {"num_ports": 8, "address_width": 24}
)
def flow_check(bench, *, num_ports, address_width):
    """An entry that passes lies in the window and names existing ports, none twice."""
    m = bench.m
    config = Config(num_ports=num_ports, address_width=address_width)
    m.submodules.block = block = FlowCheck(config)
    entry = data.View(block.entry.shape(), bench.constant("entry", block.entry.shape().size))
    m.d.comb += [
        block.entry.eq(entry),
        block.window_flits.eq(bench.free("window_flits", address_width)),
    ]
    legal = block.code == 0
    children = [entry.children[k] for k in range(8)]
    exists = [(port == NO_PORT) | (port < num_ports) for port in (*children, entry.parent)]
    first, second = bench.free("first", 3), bench.free("second", 3)
    child, other = entry.children[first], entry.children[second]
    bench.check(~legal | ((entry.base + entry.size) <= block.window_flits))
    bench.check(~legal | Cat(exists).all())
    bench.check(~legal | (first == second) | (child != other) | (child == NO_PORT))
    bench.check(~legal | (first > second) | (child != NO_PORT) | (other == NO_PORT))
    bench.cover("legal", legal & (entry.size > 4) & (entry.children[0] != NO_PORT))


def _header_check(bench, config, sequence):
    """The block with free flits, grants, answers and state; what faults stays faulted."""
    m = bench.m
    m.submodules.block = block = HeaderCheck(config)
    driven(bench, "flits", block.flits)
    faulted = Signal()
    m.d.sync += faulted.eq(faulted | block.fault.any() | bench.free("fault_elsewhere"))
    m.d.comb += [
        block.run.running.eq(bench.free("running") & ~faulted),
        block.run.faulted.eq(faulted),
        block.run.sequence.eq(sequence),
        block.run.cut_through.eq(bench.constant("cut_through")),
        block.run.packets.eq(bench.constant("packets")),
        block.run.num_flows.eq(bench.free("num_flows", 17)),
        block.run.window_base.eq(bench.constant("window_base", config.address_width)),
        block.run.bank.eq(bench.constant("bank")),
        block.lookup.intact.eq(bench.free("intact")),
        block.lookup.granted.eq(block.lookup.valid & bench.free("granted")),
        block.items.ready.eq(bench.free("items_ready")),
        block.drained.eq(bench.free("drained")),
    ]
    m.d.comb += [
        block.query.answered.eq(bench.free("answered")),
        block.query.count.eq(bench.free("count", config.count_width)),
    ]
    return block


def small_config(address_width, submessage_flits, wave_width=0, forward_flits=0):
    """An interface of two ports and two flows."""
    return Config(
        forward_flits=forward_flits,
        wave_width=wave_width,
        num_ports=2,
        num_flows=2,
        flit_bytes=8,
        address_width=address_width,
        submessage_flits=submessage_flits,
    )


@holds(
    "header_check.window",
    {"address_width": 4, "submessage_flits": 2},
    {"address_width": 4, "submessage_flits": 4},
    quick_depth=14,
)
def window(bench, *, address_width, submessage_flits):
    """No address outside the window, whatever entry and flits; nothing while faulted.

    Whatever an entry that passes the check and whatever the flits say.
    """
    m = bench.m
    config = small_config(address_width, submessage_flits)
    block = _header_check(bench, config, bench.free("sequence", sequence_width(config)))
    m.submodules.flow_check = check = FlowCheck(config)
    entry = bench.free("entry", check.entry.shape().size)
    window_flits = bench.constant("window_flits", address_width)
    m.d.comb += [
        check.entry.eq(data.View(check.entry.shape(), entry)),
        block.lookup.entry.eq(data.View(check.entry.shape(), entry)),
        check.window_flits.eq(window_flits),
    ]
    bench.assume(check.code == 0)
    end = block.run.window_base + window_flits
    bench.assume(end <= 1 << address_width)
    address = block.items.payload.address
    base, size = Signal(address_width), Signal(address_width)
    place = Signal(address_width + 1)
    with m.If(bench.past(bench.past(block.lookup.granted))):
        m.d.sync += [base.eq(check.entry.base), size.eq(check.entry.size), place.eq(0)]
    with m.Elif(block.items.valid & block.items.ready):
        m.d.sync += place.eq(place + 1)
    # The chunk's bounds first: with them the window's follow from the entry's check.
    bench.check(~block.items.valid | (place < size))
    bench.check(~block.items.valid | (address == (block.run.window_base + base + place)))
    bench.check(base + size <= window_flits)
    inside = (address >= block.run.window_base) & (address < end)
    bench.check(~block.items.valid | inside)
    bench.check(~block.items.valid | block.run.running)
    bench.cover("last", block.items.valid & (address == end - 1) & (window_flits > 3))
    bench.cover("sibling", block.items.valid & block.query.valid)


@holds(
    "header_check.once",
    {"address_width": 4, "submessage_flits": 2},
    {"address_width": 4, "submessage_flits": 4},
)
def once(bench, *, address_width, submessage_flits):
    """Each message of a flow comes in once per collective, none by an entry that flipped."""
    m = bench.m
    config = small_config(address_width, submessage_flits)
    block = _header_check(bench, config, bench.constant("sequence", sequence_width(config)))
    bench.assume(block.run.num_flows <= config.num_flows)
    entry = bench.constant("entry", block.lookup.entry.shape().size)
    m.d.comb += block.lookup.entry.eq(data.View(block.lookup.entry.shape(), entry))
    key = bench.constant("key", 2)
    item, empty = block.items.payload.mark, block.empty
    moved = block.items.valid & block.items.ready
    ends = (moved & item.last & (Cat(item.op, item.flow) == key)) | (
        empty.valid & (Cat(empty.op, empty.flow) == key)
    )
    came = Signal()
    m.d.sync += came.eq(came | ends)
    bench.check(~(came & ends))
    broken = bench.past(bench.past(block.lookup.granted)) & ~block.lookup.intact
    bench.check(~broken | block.fault.any() | block.run.faulted)
    bench.check(~(block.items.valid | empty.valid) | ~broken)
    bench.cover("message", came & (entry[32:64] == 3))
    bench.cover("again", came & (block.fault == FaultCode.DUPLICATE_MESSAGE))


class _Head:
    """What the head of the message in hand said; `same` while those of its packets say it, too."""

    def __init__(self, bench, block, config):
        m, flit = bench.m, block.flits
        layout, kind = head_layout(config), flit.payload.kind
        said = data.View(layout, flit.payload.payload[: layout.size])
        is_head = (kind == Kind.HEAD) | (kind == Kind.SINGLE)
        taken = flit.valid & flit.ready & is_head & ~block.run.faulted
        self.said, self.same, self.single = Signal(layout), Signal(), Signal()
        self.begins = taken & ~said.continued
        names = ("flow", "op", "sequence", "wave")[: 4 if config.wave_width else 3]
        with m.If(self.begins):
            m.d.sync += [self.said.eq(said), self.same.eq(1), self.single.eq(kind == Kind.SINGLE)]
        with m.Elif(taken):
            alike = Cat(said[name] == self.said[name] for name in names).all()
            m.d.sync += self.same.eq(self.same & alike & (kind == Kind.HEAD))


def _sibling_count(bench, block, head, sibling):
    """The most that was answered, to questions of this message, of the child before its own."""
    query, count, now = block.query, Signal(len(block.query.count)), Signal(len(block.query.count))
    named = (query.port == sibling) & (query.op == 0) & (query.flow == head.said.flow)
    asked = bench.past(query.valid & named & ~head.begins)
    more = asked & query.answered & (query.count > count)
    bench.m.d.comb += now.eq(Mux(more, query.count, count))
    bench.m.d.sync += count.eq(Mux(head.begins, 0, now))
    return now


@holds(
    "header_check.heads",
    {"submessage_flits": 2, "wave_width": 0},
    {"submessage_flits": 2, "wave_width": 1},
    quick_depth=14,
)
def heads(bench, *, submessage_flits, wave_width):
    """A flit comes in as its head, its kind and its flow's entry allow, behind the child before."""
    m, config = bench.m, small_config(4, submessage_flits, wave_width)
    block = _header_check(bench, config, bench.constant("sequence", sequence_width(config)))
    run, item, empty = block.run, block.items.payload, block.empty.valid
    m.submodules.flow_check = check = FlowCheck(config)
    entry = data.View(FLOW_ENTRY, bench.constant("entry", FLOW_ENTRY.size))
    m.d.comb += [check.entry.eq(entry), block.lookup.entry.eq(entry), check.window_flits.eq(15)]
    m.d.comb += [block.port.eq(bench.constant("port", 1))]
    m.d.comb += run.last_wave.eq(bench.constant("last_wave", wave_width))
    bench.assume((check.code == 0) & (run.num_flows <= config.num_flows))
    head, moved = _Head(bench, block, config), block.items.valid & block.items.ready
    said, kind = head.said, block.flits.payload.kind
    is_child = [entry.children[k] == block.port for k in range(8)]
    reduces = said.op == 0
    expected = Mux(reduces, Cat(is_child).any(), entry.parent == block.port)
    right = head.same & expected & (said.sequence == run.sequence)
    right &= (said.size == entry.size[:8]) & (head.single == (entry.size == 0))
    bench.check(~(moved | empty) | right)
    bench.check(~moved | ((item.mark.flow == said.flow) & (item.mark.op == said.op)))
    bench.check(~moved | (item.replace == (said.op == 1)))
    bench.check(~moved | (item.payload[0] == block.flits.payload.payload[0]))
    # Each flit once: what is taken passes, and what passes is taken.
    taken = block.flits.valid & block.flits.ready
    is_data = (kind == Kind.BODY) | (kind == Kind.TAIL)
    bench.check(~moved | taken)
    bench.check(~(taken & is_data) | moved | run.faulted | block.fault.any())
    # Only a tail, or a sub-message's last flit, carries the CRC of what came before it.
    ends = item.mark.last | (item.end & run.packets)
    bench.check(~moved | Mux(ends, kind == Kind.TAIL, kind == Kind.BODY))
    follows, sibling, place = Signal(), Signal(4), Signal(config.address_width)
    for k in range(1, 8):
        with m.If(is_child[k] & reduces):
            m.d.comb += [follows.eq(1), sibling.eq(entry.children[k - 1])]
    m.d.sync += place.eq(Mux(head.begins, 0, place + moved))
    count, shift = _sibling_count(bench, block, head, sibling), submessage_flits.bit_length() - 1
    wave = said.wave[:wave_width] << config.part_width
    bench.check(~((moved | empty) & follows) | (count >= wave + (place >> shift) + 1))
    bench.check(~empty | block.drained)
    bench.check(~moved | (item.mark.count == wave + (place >> shift) + 1))
    report = block.empty
    named = (report.flow == said.flow) & (report.op == said.op) & report.last
    bench.check(~empty | (named & (report.count == wave + 1)))
    bench.cover("follows", moved & item.mark.last & follows & (place == 2))
    bench.cover("empty", empty & follows)


@holds(
    "header_check.waves",
    {"address_width": 4, "submessage_flits": 2, "wave_width": 1},
    {"address_width": 4, "submessage_flits": 4, "wave_width": 2},
    depth=WAVES_CYCLES,
    quick_depth=16,
)
def waves(bench, *, address_width, submessage_flits, wave_width):
    """Each wave of a message comes in once, in order, at its own place, counted as its own."""
    m = bench.m
    config = small_config(address_width, submessage_flits, wave_width)
    block = _header_check(bench, config, bench.constant("sequence", sequence_width(config)))
    run = block.run
    last_wave = bench.constant("last_wave", wave_width)
    m.d.comb += run.last_wave.eq(last_wave)
    bench.assume(run.num_flows <= config.num_flows)
    # One entry for both flows: small enough that no place is beyond the last address but a wave's.
    entry = data.View(FLOW_ENTRY, bench.constant("entry", FLOW_ENTRY.size))
    m.d.comb += block.lookup.entry.eq(entry)
    fits = (entry.base + entry.size + run.window_base) <= 1 << address_width
    bench.assume(fits & (entry.stride < 1 << address_width))
    key = bench.constant("key", 2)
    item, empty = block.items.payload.mark, block.empty
    mine = Cat(item.op, item.flow) == key
    moved = block.items.valid & block.items.ready & mine
    came, place = Signal(wave_width + 1), Signal(address_width + 1)
    reported = empty.valid & (Cat(empty.op, empty.flow) == key)
    with m.If(reported | (moved & item.last)):
        m.d.sync += [came.eq(came + 1), place.eq(0)]
    with m.Elif(moved):
        m.d.sync += place.eq(place + 1)
    shift, low = submessage_flits.bit_length() - 1, config.part_width
    due = came <= last_wave
    # All bits of what the head says, also of waves without a number.
    record = Signal(16)
    flit = block.flits.payload
    is_head = (flit.kind == Kind.HEAD) | (flit.kind == Kind.SINGLE)
    with m.If(block.flits.valid & block.flits.ready & is_head):
        m.d.sync += record.eq(
            data.View(head_layout(config), flit.payload[: head_layout(config).size]).wave
        )
    bench.check(~((reported & ~run.faulted) | moved) | (record == came))
    bench.check(~reported | (due & (empty.count == (came << low) + 1) & (entry.size == 0)))
    wave_place = run.window_base + entry.base + came * entry.stride + place
    right = block.items.payload.address == wave_place[:address_width]
    bench.check(~moved | (due & (place < entry.size) & right))
    # Where a chunk begins; behind that the guard holds each address against the window.
    bench.check(~moved | (place != 0) | (wave_place < 1 << address_width))
    bench.check(~moved | (item.count == (came << low) + (place >> shift) + 1))
    bench.check(~moved | (item.last == (place + 1 == entry.size)))
    refused = block.fault == FaultCode.UNEXPECTED_MESSAGE
    bench.cover("second", moved & item.last & (came == 1) & (entry.size == 3))
    bench.cover("again", (came == 2) & (block.fault == FaultCode.DUPLICATE_MESSAGE))
    bench.cover("beyond", refused & (came == 2) & (last_wave == 1))


@holds("header_check.asks", {"wave_width": 0}, {"wave_width": 1})
def asks(bench, *, wave_width):
    """The duplicate filter is asked about the head in hand; none of another collective passes."""
    m, config = bench.m, small_config(4, 2, wave_width)
    duplicates = hollow(DuplicateFilter)(config)
    hand_out(bench, "multitree.nic.receive.header_check.DuplicateFilter", duplicates)
    free_outputs(bench, "board", duplicates.seen, duplicates.early, duplicates.intact)
    block = _header_check(bench, config, bench.free("sequence", sequence_width(config)))
    run = block.run
    m.d.comb += run.clear.eq(bench.free("clear"))
    free_outputs(bench, "found", block.lookup.entry)
    head = _Head(bench, block, config)
    said, granted = head.said, block.lookup.granted
    bench.check((duplicates.clear == run.clear) & (duplicates.bank == run.bank))
    key = (duplicates.op == said.op) & (duplicates.flow == said.flow)
    when = duplicates.phase == said.sequence[0]
    if wave_width:
        when &= duplicates.wave == said.wave[:wave_width]
    bench.check(~granted | key)
    bench.check(~bench.past(granted) | when)
    checked = bench.past(bench.past(granted))
    bench.check(duplicates.mark == bench.past(checked & ~block.fault.any()))
    bench.check(~duplicates.mark | (key & when))
    # The collective that the head is of is still the one that runs.
    other = said.sequence[0] != run.sequence[0]
    bench.check(~(checked & other) | block.fault.any())
    refuses = duplicates.seen | duplicates.early | ~duplicates.intact
    bench.check(~(checked & refuses) | block.fault.any())
    bench.cover("mark", duplicates.mark & said.sequence[0])
    bench.cover("late", checked & other)


@holds("receiver.joins", {"address_width": 4}, {"address_width": 12})
def receiver(bench, *, address_width):
    """Each sub-message that is in is reported once, with payload or without; so are faults."""
    m = bench.m
    config = small_config(address_width, 2)
    header_check, reducer = hollow(HeaderCheck)(config), hollow(Reducer)(config)
    hand_out(bench, "multitree.nic.receive.receiver.HeaderCheck", header_check)
    hand_out(bench, "multitree.nic.receive.receiver.Reducer", reducer)
    m.submodules.block = block = Receiver(config)
    names = ("valid", "op", "flow", "count", "last")
    for name, report in (("empty", header_check.empty), ("arrival", reducer.arrival)):
        free_outputs(bench, name, *(getattr(report, field) for field in names))
    free_outputs(bench, "rest", reducer.idle, header_check.fault, header_check.wait.flow)
    # An idle reducer reports nothing in this cycle, nor in the next one.
    bench.assume(~(reducer.idle | bench.past(reducer.idle)) | ~reducer.arrival.valid)
    # An empty message waits for that (`header_check.once` takes any answer).
    bench.assume(~header_check.empty.valid | header_check.drained)
    bench.check(header_check.drained == reducer.idle)
    free_outputs(bench, "how", block.run.dtype, block.run.maximum, block.port)
    bench.check((reducer.dtype == block.run.dtype) & (reducer.maximum == block.run.maximum))
    bench.check(header_check.port == block.port)
    empty, arrival, record = header_check.empty, reducer.arrival, block.arrival
    was_empty = bench.past(empty.valid)
    bench.check(record.valid == (was_empty | arrival.valid))
    for name in names[1:]:
        value = getattr(record, name)
        bench.check(~arrival.valid | (value == getattr(arrival, name)))
        bench.check(~was_empty | (value == bench.past(getattr(empty, name))))
    bench.check(block.fault == bench.past(header_check.fault))
    bench.check(block.wait.flow == bench.past(header_check.wait.flow))
    bench.cover("both", was_empty & bench.past(bench.past(bench.past(arrival.valid))))
