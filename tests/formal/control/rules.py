"""Properties of what is held against a rule: rows, flows, settings, steps, CRCs."""

from functools import reduce
from operator import xor

from amaranth import Cat, Const, Mux, Signal
from amaranth.lib import data

from multitree.hw.link.check import RunningCheck
from multitree.hw.link.link import Kind
from multitree.nic.control.checker import RowCheck, SettingsCheck, SharedFlowCheck
from multitree.nic.driver.config import MODES, Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.layouts import SHARED_FLOW, lane_types
from multitree.nic.receive.duplicate_filter import Expectation
from multitree.nic.send.rows import StepCounter
from tests.formal.bench import holds, plain, sets

NOP = 2


@holds("row_check.legal", {"num_classes": 1, "num_ports": 2}, {"num_classes": 0, "num_ports": 4})
def row_check(m, *, num_classes, num_ports):
    """A row passes exactly if each field is legal, and its step is none before the last one's."""
    config = Config(num_classes=num_classes, num_ports=num_ports, address_width=4)
    m.submodules.block = block = RowCheck(config)
    row, step, num_flows = block.row, block.previous_step, block.num_flows
    m.fix(row)
    m.drive(step, num_flows)
    unused = row.reserved != 0
    if num_classes:
        unused |= (row.unused != 0) | (row.vc_class > num_classes - 1)
    moves = (row.port < num_ports) & (row.flow < num_flows)
    legal = ~unused & (row.step >= step) & Mux(row.op == NOP, 1, (row.op != 3) & moves)
    m.check((block.code == 0) == (legal & (row.stage == 0)))
    wrong = Mux(legal, FaultCode.ITERATIONS.value, FaultCode.ROW_ILLEGAL.value)
    m.check((block.code == 0) | (block.code == wrong))
    m.cover("legal", (block.code == 0) & (row.op == 1) & (row.flow == 9) & (step == 2))
    m.cover("nop", (block.code == 0) & (row.op == NOP) & (row.port == 15))


@holds("shared_flow_check.legal", *sets("max_children address_width", (4, 4), (64, 24)))
def shared_flow(m, *, max_children, address_width):
    """An entry passes exactly if its chunk is in the window, slots begin there, children fit."""
    sizes = {"max_children": max_children, "address_width": address_width}
    m.submodules.block = block = SharedFlowCheck(Config(num_classes=1, **sizes))
    entry, window = data.View(SHARED_FLOW, block.entry.as_value()), block.window_flits
    m.fix(entry)
    m.drive(window)
    inside = ((entry.base + entry.size) <= window) & (entry.staging <= window)
    fits = (entry.num_children <= max_children) & (entry.reserved == 0) & (entry.stride == 0)
    m.check((block.code == 0) == (inside & fits))
    m.check((block.code == 0) | (block.code == FaultCode.FLOW_ILLEGAL.value))
    m.check(block.num_arrivals == (entry.num_children + entry.parent)[:8])
    m.cover("legal", (block.code == 0) & (entry.size == 5) & entry.parent & (window > 6))


@holds(
    "settings_check.legal",
    {"num_classes": 1, "wave_width": 0, "dtypes": ("int32",), "modes": ("packets",)},
    {"num_classes": 0, "wave_width": 2, "dtypes": ("float32", "bfloat16"), "modes": MODES},
    {"num_classes": 0, "wave_width": 0, "dtypes": ("int32",), "modes": ()},
)
def settings(m, *, num_classes, wave_width, dtypes, modes):
    """A start is legal exactly if mode and type are built, in the window that was checked."""
    sizes = {"num_classes": num_classes, "wave_width": wave_width}
    config = Config(address_width=8, **sizes, dtypes=dtypes, modes=modes)
    m.submodules.block = block = SettingsCheck(config)
    mode, base, flits = block.mode, block.window_base, block.window_flits
    committed = block.committed_flits
    m.fix(mode, base, flits, committed, block.iterations)
    m.drive(block.swap)
    kinds = [kind.value for kind in lane_types(config)]
    built = Cat(mode[:2] == kind for kind in kinds).any()
    # Beside the type: lockstep, cut-through, packets, maximum, and which phases are silent.
    unknown = mode[8:] if num_classes else mode[6:]
    known = unknown == 0
    if num_classes:
        known &= ~mode[3] & ~mode[4]
    if "lockstep" not in modes:
        known &= ~mode[2]
    if "packets" not in modes:
        known &= ~mode[4]
    if wave_width:
        known &= ~(mode[2] & (block.iterations != 0))
    inside = (flits < 256) & ((base + flits) <= 256)
    checked = (flits == committed) | m.past(block.swap)
    m.check(~m.past(1) | (block.legal == (built & known & inside & checked)))
    m.cover("legal", block.legal & mode[5] & (flits == 255) & (base == 1) & (committed == 0))


@holds("expectation.sibling", {"port": 1}, {"port": 0})
def expectation(m, *, port):
    """A head is expected exactly from child or parent, and waits for the child before it."""
    m.submodules.block = block = Expectation()
    m.d.comb += block.port.eq(port)
    entry, op, single = block.entry, block.op, block.single
    m.fix(entry)
    m.drive(op, single)
    children = [entry.children[k] for k in range(8)]
    # As the check of flows lets pass: none twice, no gaps.
    for a in range(8):
        for b in range(a):
            m.assume((children[a] != children[b]) | (children[a] == NO_PORT))
        if a:
            m.assume((children[a] == NO_PORT) | (children[a - 1] != NO_PORT))
    which = m.constant("which", 3)
    mine, before = children[0], Const(NO_PORT, 4)
    for k in range(1, 8):
        mine = Mux(which == k, children[k], mine)
        before = Mux(which == k, children[k - 1], before)
    fits = single == (entry.size == 0)
    m.check(~op | (block.expected == ((entry.parent == port) & fits)))
    hit = ~op & (mine == port)
    m.check(~hit | (block.expected == fits))
    m.check(~hit | (block.after == (which != 0)))
    m.check(~(hit & block.after) | (block.sibling == before))
    none = ~Cat(child == port for child in children).any()
    m.check(~(~op & none) | (~block.expected & ~block.after))
    m.cover("after", hit & block.after & block.expected & (entry.size == 2))


def _driven_steps(m, block, width):
    """Any rows, of steps of so many bits; what a step lasts is left to the property."""
    row, cycles = block.row_step[:width], block.run.step_cycles[:2]
    m.drive(block.start, block.row_valid, block.nop, row)
    return block.start, block.row_valid, block.nop, row, cycles


def _last_step(m, start, valid, row):
    """The step of the row that was in hand last, 0 from the start on."""
    last = Signal(len(row))
    with m.If(start):
        m.d.sync += last.eq(0)
    with m.Elif(valid):
        m.d.sync += last.eq(row)
    return last


@holds("steps.lockstep", {"width": 2}, {"width": 4})
def steps(m, *, width):
    """Steps come one by one, each after its time; a row goes in its own step or later."""
    m.submodules.block = block = StepCounter(Config(address_width=4))
    start, valid, nop, row, cycles = _driven_steps(m, block, width)
    m.d.comb += block.run.lockstep.eq(1)
    m.fix(cycles)
    # Cycles that the step has lasted, the one in which it began not included.
    age, step = Signal(3), Signal(width + 1)
    over = (age + 1) >= cycles
    begins = valid & over & ((row > step) | (nop & (row == step)))
    with m.If(start):
        m.d.sync += [age.eq(0), step.eq(0)]
    with m.Elif(begins):
        m.d.sync += [age.eq(0), step.eq(step + 1)]
    with m.Elif(~age.all()):
        m.d.sync += age.eq(age + 1)
    started = m.ever(start)
    # Rows come in order: none is of a step before one that was in hand.
    last = _last_step(m, start, valid, row)
    m.assume(~valid | (row >= last) | start)
    m.assume(step <= (1 << width) - 1)
    m.check(~started | (block.step == step))
    goes = (row <= step) & (~nop | over)
    m.check(~started | (block.go == goes))
    m.cover("third", started & valid & block.go & (step == 2) & (row == 2) & (cycles == 3))


@holds("steps.free", {"width": 2})
def free_steps(m, *, width):
    """Without lockstep every row goes when it comes."""
    m.submodules.block = block = StepCounter(Config(address_width=4))
    start, valid, _, row, cycles = _driven_steps(m, block, width)
    m.drive(cycles)
    m.check(block.go & (~m.past(1) | (block.step == _last_step(m, start, valid, row))))
    m.cover("step", block.step == 2)


@holds("link_check.channels", *sets("num_vcs submessage_flits", (2, 2), (3, 4)))
def crc_channels(m, *, num_vcs, submessage_flits):
    """Each channel's CRC is that of its own message, carried where a sub-message ends."""
    # Any step from state and content: what is looked at is whose state it is.
    m.replace("multitree.hw.link.check.crc32_step", _any_step)
    sizes = {"flit_bytes": 1, "submessage_flits": submessage_flits}
    m.submodules.block = block = RunningCheck(num_vcs=num_vcs, **sizes)
    m.submodules.alone = alone = RunningCheck(**sizes)
    m.drive(block)
    vc, kind, advance, clear = block.flit.vc, plain(block.flit.kind), block.advance, block.clear
    mine = m.one_of(num_vcs, "channel")
    m.assume(vc < num_vcs)
    # A control flit has a CRC of its own, and leaves the message's alone.
    m.assume(~advance | ~kind[2])
    m.d.comb += [
        alone.flit.kind.as_value().eq(kind),
        # The channel is part of what the CRC is of.
        alone.flit.payload.eq(block.flit.payload),
        alone.advance.eq(advance & (vc == mine)),
        alone.clear.eq(clear),
    ]
    same = (block.check == alone.check) & (block.carries == alone.carries)
    m.check((vc != mine) | same)
    place, head = Signal(range(submessage_flits)), Kind.HEAD.value
    first = (kind == head) | (kind == Kind.SINGLE.value) | kind[2]
    with m.If(clear):
        m.d.sync += place.eq(0)
    with m.Elif(advance & (vc == mine)):
        m.d.sync += place.eq(Mux(first, 0, place + 1))
    last = (kind == Kind.TAIL.value) | (kind == Kind.SINGLE.value) | kind[2]
    carries = last | ((kind == Kind.BODY.value) & place.all())
    m.check((vc != mine) | (block.carries == carries))
    m.cover("second", carries & (kind == Kind.BODY.value) & (vc == mine) & (mine != 0))


def _any_step(state, content, *, sums):
    """In the place of a CRC's step: depends on all that it is of but the channel's number."""
    folded = reduce(xor, content[:11])
    return Cat(state[1:], state[0] ^ folded)
