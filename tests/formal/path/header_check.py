"""Properties of what comes in on a port: no address outside the window."""

from amaranth import Cat, Mux, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.control.checker import FlowCheck
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.layouts import head_layout
from multitree.nic.receive.duplicate_filter import DuplicateFilter
from multitree.nic.receive.header_check import HeaderCheck
from multitree.nic.receive.receiver import Receiver
from multitree.nic.reduce.reducer import Reducer
from tests.formal.bench import holds, sets, transfer
from tests.formal.stand_ins import stand_in

__all__ = ["entry_of_waves", "in_window", "small_config", "with_lookup"]

WAVES_CYCLES = 22
"""Cycles searched for waves: two of them, of three flits each, take 20."""


@holds("flow_check.window", *sets("num_ports address_width", (1, 4), (8, 24)))
def flow_check(m, *, num_ports, address_width):
    """An entry that passes lies in the window and names existing ports, none twice."""
    config = Config(num_ports=num_ports, address_width=address_width)
    m.submodules.block = block = FlowCheck(config)
    m.fix(block.entry)
    m.drive(block.window_flits)
    entry, legal = block.entry, block.code == 0
    children = [entry.children[k] for k in range(8)]
    exists = [(port == NO_PORT) | (port < num_ports) for port in (*children, entry.parent)]
    first, second = m.free("first", 3), m.free("second", 3)
    child, other = entry.children[first], entry.children[second]
    m.check(~legal | ((entry.base + entry.size) <= block.window_flits))
    m.check(~legal | Cat(exists).all())
    m.check(~legal | (first == second) | (child != other) | (child == NO_PORT))
    m.check(~legal | (first > second) | (child != NO_PORT) | (other == NO_PORT))
    m.cover("legal", legal & (entry.size > 4) & (entry.children[0] != NO_PORT))


def with_lookup(m, block, faults):
    """A block that takes heads, with free flits, grants and state; what faults stays faulted."""
    m.submodules.block = block
    run, faulted = block.run, m.ever(faults | m.free("fault_elsewhere"))
    m.drive(block.flits, run.num_flows, block.lookup.intact)
    m.fix(run.window_base, run.bank)
    m.d.comb += [run.running.eq(m.free("running") & ~faulted), run.faulted.eq(faulted)]
    m.d.comb += block.lookup.granted.eq(block.lookup.valid & m.free("granted"))
    return block


def _header_check(m, config):
    """The block with free answers, too."""
    block = HeaderCheck(config)
    with_lookup(m, block, block.fault.any())
    m.drive(block.items.ready, block.drained, block.query.answered, block.query.count)
    m.fix(block.run.cut_through, block.run.packets)
    return block


def in_window(m, run, entry, config):
    """A window that an entry lies in by the check of flows, and where it ends."""
    m.submodules.flow_check = check = FlowCheck(config)
    m.fix(check.window_flits)
    m.d.comb += check.entry.eq(entry)
    end = run.window_base + check.window_flits
    m.assume(check.code == 0)
    m.assume(end <= 1 << config.address_width)
    return check.window_flits, end


def entry_of_waves(m, block):
    """One entry for both flows: no place is beyond the last address but a wave's."""
    entry, last = block.lookup.entry, 1 << block.config.address_width
    m.fix(entry)
    m.assume((entry.base + entry.size + block.run.window_base) <= last)
    m.assume(entry.stride < last)
    return entry


def small_config(address_width, submessage_flits, wave_width=0, forward_flits=0):
    """An interface of two ports and two flows."""
    sizes = {"address_width": address_width, "submessage_flits": submessage_flits}
    sizes |= {"wave_width": wave_width, "forward_flits": forward_flits}
    return Config(num_ports=2, num_flows=2, flit_bytes=8, **sizes)


@holds(
    "header_check.window", *sets("address_width submessage_flits", (4, 2), (4, 4)), quick_depth=14
)
def window(m, *, address_width, submessage_flits):
    """No address outside the window, whatever entry and flits; nothing while faulted.

    Whatever an entry that passes the check and whatever the flits say.
    """
    config = small_config(address_width, submessage_flits)
    block = _header_check(m, config)
    entry = block.lookup.entry
    m.drive(block.run.sequence, entry)
    window_flits, end = in_window(m, block.run, entry, config)
    address = block.items.payload.address
    base, size = Signal(address_width), Signal(address_width)
    place = Signal(address_width + 1)
    with m.If(m.past(block.lookup.granted, 2)):
        m.d.sync += [base.eq(entry.base), size.eq(entry.size), place.eq(0)]
    with m.Elif(transfer(block.items)):
        m.d.sync += place.eq(place + 1)
    # The chunk's bounds first: with them the window's follow from the entry's check.
    m.check(~block.items.valid | (place < size))
    m.check(~block.items.valid | (address == (block.run.window_base + base + place)))
    m.check(base + size <= window_flits)
    inside = (address >= block.run.window_base) & (address < end)
    m.check(~block.items.valid | inside)
    m.check(~block.items.valid | block.run.running)
    m.cover("last", block.items.valid & (address == end - 1) & (window_flits > 3))
    m.cover("sibling", block.items.valid & block.query.valid)


@holds("header_check.once", *sets("address_width submessage_flits", (4, 2), (4, 4)))
def once(m, *, address_width, submessage_flits):
    """Each message of a flow comes in once per collective, none by an entry that flipped."""
    config = small_config(address_width, submessage_flits)
    block = _header_check(m, config)
    m.fix(block.run.sequence, block.lookup.entry)
    m.assume(block.run.num_flows <= config.num_flows)
    key = m.constant("key", 2)
    item, empty = block.items.payload.mark, block.empty
    moved = transfer(block.items)
    ends = (moved & item.last & (Cat(item.op, item.flow) == key)) | (
        empty.valid & (Cat(empty.op, empty.flow) == key)
    )
    came = m.ever(ends)
    m.check(~(came & ends))
    broken = m.past(block.lookup.granted, 2) & ~block.lookup.intact
    m.check(~broken | block.fault.any() | block.run.faulted)
    m.check(~(block.items.valid | empty.valid) | ~broken)
    m.cover("message", came & (block.lookup.entry.as_value()[32:64] == 3))
    m.cover("again", came & (block.fault == FaultCode.DUPLICATE_MESSAGE))


class _Head:
    """What the head of the message in hand said; `same` while those of its packets say it, too."""

    def __init__(self, m, block, config):
        flit = block.flits
        layout, kind = head_layout(config), flit.payload.kind
        said = data.View(layout, flit.payload.payload[: layout.size])
        is_head = (kind == Kind.HEAD) | (kind == Kind.SINGLE)
        taken = transfer(flit) & is_head & ~block.run.faulted
        self.said, self.same, self.single = Signal(layout), Signal(), Signal()
        self.begins = taken & ~said.continued
        names = ("flow", "op", "sequence", "wave")[: 4 if config.wave_width else 3]
        with m.If(self.begins):
            m.d.sync += [self.said.eq(said), self.same.eq(1), self.single.eq(kind == Kind.SINGLE)]
        with m.Elif(taken):
            alike = Cat(said[name] == self.said[name] for name in names).all()
            m.d.sync += self.same.eq(self.same & alike & (kind == Kind.HEAD))


def _sibling_count(m, block, head, sibling):
    """The most that was answered, to questions of this message, of the child before its own."""
    query, count, now = block.query, Signal(len(block.query.count)), Signal(len(block.query.count))
    named = (query.port == sibling) & (query.op == 0) & (query.flow == head.said.flow)
    asked = m.past(query.valid & named & ~head.begins)
    more = asked & query.answered & (query.count > count)
    m.d.comb += now.eq(Mux(more, query.count, count))
    m.d.sync += count.eq(Mux(head.begins, 0, now))
    return now


@holds("header_check.heads", *sets("submessage_flits wave_width", (2, 0), (2, 1)), quick_depth=14)
def heads(m, *, submessage_flits, wave_width):
    """A flit comes in as its head, its kind and its flow's entry allow, behind the child before."""
    config = small_config(4, submessage_flits, wave_width)
    block = _header_check(m, config)
    run, item, empty = block.run, block.items.payload, block.empty.valid
    m.submodules.flow_check = check = FlowCheck(config)
    entry = block.lookup.entry
    m.fix(run.sequence, run.last_wave, block.port[:1], entry)
    m.d.comb += [check.entry.eq(entry), check.window_flits.eq(15)]
    m.assume((check.code == 0) & (run.num_flows <= config.num_flows))
    head, moved = _Head(m, block, config), transfer(block.items)
    said, kind = head.said, block.flits.payload.kind
    is_child = [entry.children[k] == block.port for k in range(8)]
    reduces = said.op == 0
    expected = Mux(reduces, Cat(is_child).any(), entry.parent == block.port)
    right = head.same & expected & (said.sequence == run.sequence)
    right &= (said.size == entry.size[:8]) & (head.single == (entry.size == 0))
    m.check(~(moved | empty) | right)
    m.check(~moved | ((item.mark.flow == said.flow) & (item.mark.op == said.op)))
    m.check(~moved | (item.replace == (said.op == 1)))
    m.check(~moved | (item.payload[0] == block.flits.payload.payload[0]))
    # Each flit once: what is taken passes, and what passes is taken.
    taken = transfer(block.flits)
    is_data = (kind == Kind.BODY) | (kind == Kind.TAIL)
    m.check(~moved | taken)
    m.check(~(taken & is_data) | moved | run.faulted | block.fault.any())
    # Only a tail, or a sub-message's last flit, carries the CRC of what came before it.
    ends = item.mark.last | (item.end & run.packets)
    m.check(~moved | Mux(ends, kind == Kind.TAIL, kind == Kind.BODY))
    follows, sibling, place = Signal(), Signal(4), Signal(config.address_width)
    for k in range(1, 8):
        with m.If(is_child[k] & reduces):
            m.d.comb += [follows.eq(1), sibling.eq(entry.children[k - 1])]
    m.d.sync += place.eq(Mux(head.begins, 0, place + moved))
    count, shift = _sibling_count(m, block, head, sibling), submessage_flits.bit_length() - 1
    wave = said.wave[:wave_width] << config.part_width
    m.check(~((moved | empty) & follows) | (count >= wave + (place >> shift) + 1))
    m.check(~empty | block.drained)
    m.check(~moved | (item.mark.count == wave + (place >> shift) + 1))
    report = block.empty
    named = (report.flow == said.flow) & (report.op == said.op) & report.last
    m.check(~empty | (named & (report.count == wave + 1)))
    m.cover("follows", moved & item.mark.last & follows & (place == 2))
    m.cover("empty", empty & follows)


@holds(
    "header_check.waves",
    *sets("address_width submessage_flits wave_width", (4, 2, 1), (4, 4, 2)),
    depth=WAVES_CYCLES,
    quick_depth=16,
)
def waves(m, *, address_width, submessage_flits, wave_width):
    """Each wave of a message comes in once, in order, at its own place, counted as its own."""
    config = small_config(address_width, submessage_flits, wave_width)
    block = _header_check(m, config)
    run, entry, last_wave = block.run, entry_of_waves(m, block), block.run.last_wave
    m.fix(run.sequence, last_wave)
    m.assume(run.num_flows <= config.num_flows)
    key = m.constant("key", 2)
    item, empty = block.items.payload.mark, block.empty
    mine = Cat(item.op, item.flow) == key
    moved = transfer(block.items) & mine
    came, place = Signal(wave_width + 1), Signal(address_width + 1)
    reported = empty.valid & (Cat(empty.op, empty.flow) == key)
    with m.If(reported | (moved & item.last)):
        m.d.sync += [came.eq(came + 1), place.eq(0)]
    with m.Elif(moved):
        m.d.sync += place.eq(place + 1)
    shift, low = submessage_flits.bit_length() - 1, config.part_width
    due = came <= last_wave
    # All bits of what the head says, also of waves without a number.
    flit, layout = block.flits.payload, head_layout(config)
    is_head = (flit.kind == Kind.HEAD) | (flit.kind == Kind.SINGLE)
    said = data.View(layout, flit.payload[: layout.size])
    record = m.latch(transfer(block.flits) & is_head, said.wave)
    m.check(~((reported & ~run.faulted) | moved) | (record == came))
    m.check(~reported | (due & (empty.count == (came << low) + 1) & (entry.size == 0)))
    wave_place = run.window_base + entry.base + came * entry.stride + place
    right = block.items.payload.address == wave_place[:address_width]
    m.check(~moved | (due & (place < entry.size) & right))
    # Where a chunk begins; behind that the guard holds each address against the window.
    m.check(~moved | (place != 0) | (wave_place < 1 << address_width))
    m.check(~moved | (item.count == (came << low) + (place >> shift) + 1))
    m.check(~moved | (item.last == (place + 1 == entry.size)))
    refused = block.fault == FaultCode.UNEXPECTED_MESSAGE
    m.cover("second", moved & item.last & (came == 1) & (entry.size == 3))
    m.cover("again", (came == 2) & (block.fault == FaultCode.DUPLICATE_MESSAGE))
    m.cover("beyond", refused & (came == 2) & (last_wave == 1))


@holds("header_check.asks", {"wave_width": 0}, {"wave_width": 1})
def asks(m, *, wave_width):
    """The duplicate filter is asked about the head in hand; none of another collective passes."""
    config = small_config(4, 2, wave_width)
    module = "multitree.nic.receive.header_check"
    duplicates = stand_in(m, module, DuplicateFilter, config)
    m.drive(duplicates.seen, duplicates.early, duplicates.intact)
    block = _header_check(m, config)
    run, head = block.run, _Head(m, block, config)
    m.drive(run.sequence, run.clear, block.lookup.entry)
    said, granted = head.said, block.lookup.granted
    m.check((duplicates.clear == run.clear) & (duplicates.bank == run.bank))
    key = (duplicates.op == said.op) & (duplicates.flow == said.flow)
    when = duplicates.phase == said.sequence[0]
    if wave_width:
        when &= duplicates.wave == said.wave[:wave_width]
    m.check(~granted | key)
    m.check(~m.past(granted) | when)
    checked = m.past(granted, 2)
    m.check(duplicates.mark == m.past(checked & ~block.fault.any()))
    m.check(~duplicates.mark | (key & when))
    # The collective that the head is of is still the one that runs.
    other = said.sequence[0] != run.sequence[0]
    m.check(~(checked & other) | block.fault.any())
    refuses = duplicates.seen | duplicates.early | ~duplicates.intact
    m.check(~(checked & refuses) | block.fault.any())
    m.cover("mark", duplicates.mark & said.sequence[0])
    m.cover("late", checked & other)


@holds("receiver.joins", {"address_width": 4}, {"address_width": 12})
def receiver(m, *, address_width):
    """Each sub-message that is in is reported once, with payload or without; so are faults."""
    config = small_config(address_width, 2)
    module = "multitree.nic.receive.receiver"
    header_check, reducer = (stand_in(m, module, b, config) for b in (HeaderCheck, Reducer))
    m.submodules.block = block = Receiver(config)
    names = ("valid", "op", "flow", "count", "last")
    for report in (header_check.empty, reducer.arrival):
        m.drive(*(getattr(report, name) for name in names))
    m.drive(reducer.idle, header_check.fault, header_check.wait.flow)
    # An idle reducer reports nothing in this cycle, nor in the next one.
    m.assume(~(reducer.idle | m.past(reducer.idle)) | ~reducer.arrival.valid)
    # An empty message waits for that (`header_check.once` takes any answer).
    m.assume(~header_check.empty.valid | header_check.drained)
    m.check(header_check.drained == reducer.idle)
    m.drive(block.run.dtype, block.run.maximum, block.port)
    m.check((reducer.dtype == block.run.dtype) & (reducer.maximum == block.run.maximum))
    m.check(header_check.port == block.port)
    empty, arrival, record = header_check.empty, reducer.arrival, block.arrival
    was_empty = m.past(empty.valid)
    m.check(record.valid == (was_empty | arrival.valid))
    for name in names[1:]:
        value = getattr(record, name)
        m.check(~arrival.valid | (value == getattr(arrival, name)))
        m.check(~was_empty | (value == m.past(getattr(empty, name))))
    m.check(block.fault == m.past(header_check.fault))
    m.check(block.wait.flow == m.past(header_check.wait.flow))
    m.cover("both", was_empty & m.past(arrival.valid, 3))
