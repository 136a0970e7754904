"""Properties of what is held against a rule: rows, flows, settings, steps, CRCs."""

from amaranth import Cat, Const, Mux, Signal
from amaranth.lib import data

from multitree.hw.link.check import RunningCheck
from multitree.hw.link.link import Kind
from multitree.nic.control.checker import RowCheck, SettingsCheck, SharedFlowCheck
from multitree.nic.driver.config import MODES, Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.layouts import FLOW_ENTRY, SHARED_FLOW, lane_types
from multitree.nic.receive.duplicate_filter import Expectation
from multitree.nic.send.rows import StepCounter
from tests.formal.bench import holds

NOP = 2


@holds("row_check.legal", {"num_classes": 1, "num_ports": 2}, {"num_classes": 0, "num_ports": 4})
def row_check(bench, *, num_classes, num_ports):
    """A row passes exactly if each field is legal, and its step is none before the last one's."""
    m = bench.m
    config = Config(num_classes=num_classes, num_ports=num_ports, address_width=4)
    m.submodules.block = block = RowCheck(config)
    row = data.View(block.row.shape(), bench.constant("row", block.row.shape().size))
    step, num_flows = bench.free("previous_step", 16), bench.free("num_flows", 17)
    m.d.comb += [block.row.eq(row), block.previous_step.eq(step), block.num_flows.eq(num_flows)]
    unused = row.reserved != 0
    if num_classes:
        unused |= (row.unused != 0) | (row.vc_class > num_classes - 1)
    moves = (row.port < num_ports) & (row.flow < num_flows)
    legal = ~unused & (row.step >= step) & Mux(row.op == NOP, 1, (row.op != 3) & moves)
    bench.check((block.code == 0) == (legal & (row.stage == 0)))
    wrong = Mux(legal, FaultCode.ITERATIONS.value, FaultCode.ROW_ILLEGAL.value)
    bench.check((block.code == 0) | (block.code == wrong))
    bench.cover("legal", (block.code == 0) & (row.op == 1) & (row.flow == 9) & (step == 2))
    bench.cover("nop", (block.code == 0) & (row.op == NOP) & (row.port == 15))


@holds(
    "shared_flow_check.legal",
    {"max_children": 4, "address_width": 4},
    {"max_children": 64, "address_width": 24},
)
def shared_flow(bench, *, max_children, address_width):
    """An entry passes exactly if its chunk is in the window, slots begin there, children fit."""
    m = bench.m
    sizes = {"max_children": max_children, "address_width": address_width}
    m.submodules.block = block = SharedFlowCheck(Config(num_classes=1, **sizes))
    entry = data.View(SHARED_FLOW, bench.constant("entry", FLOW_ENTRY.size))
    window = bench.free("window_flits", address_width)
    m.d.comb += [
        block.entry.eq(data.View(FLOW_ENTRY, entry.as_value())),
        block.window_flits.eq(window),
    ]
    inside = ((entry.base + entry.size) <= window) & (entry.staging <= window)
    fits = (entry.num_children <= max_children) & (entry.reserved == 0) & (entry.stride == 0)
    bench.check((block.code == 0) == (inside & fits))
    bench.check((block.code == 0) | (block.code == FaultCode.FLOW_ILLEGAL.value))
    bench.check(block.num_arrivals == (entry.num_children + entry.parent)[:8])
    bench.cover("legal", (block.code == 0) & (entry.size == 5) & entry.parent & (window > 6))


@holds(
    "settings_check.legal",
    {"num_classes": 1, "wave_width": 0, "dtypes": ("int32",), "modes": ("packets",)},
    {"num_classes": 0, "wave_width": 2, "dtypes": ("float32", "bfloat16"), "modes": MODES},
    {"num_classes": 0, "wave_width": 0, "dtypes": ("int32",), "modes": ()},
)
def settings(bench, *, num_classes, wave_width, dtypes, modes):
    """A start is legal exactly if mode and type are built, in the window that was checked."""
    m = bench.m
    sizes = {"num_classes": num_classes, "wave_width": wave_width}
    config = Config(address_width=8, **sizes, dtypes=dtypes, modes=modes)
    m.submodules.block = block = SettingsCheck(config)
    names = ("mode", "window_base", "window_flits", "committed_flits", "iterations")
    mode, base, flits, committed, iterations = (bench.constant(name, 32) for name in names)
    for name, value in zip(names, (mode, base, flits, committed, iterations), strict=True):
        m.d.comb += getattr(block, name).eq(value)
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
        known &= ~(mode[2] & (iterations != 0))
    inside = (flits < 256) & ((base + flits) <= 256)
    swap, begun = bench.free("swap"), bench.past(1)
    m.d.comb += block.swap.eq(swap)
    checked = (flits == committed) | bench.past(swap)
    bench.check(~begun | (block.legal == (built & known & inside & checked)))
    bench.cover("legal", block.legal & mode[5] & (flits == 255) & (base == 1) & (committed == 0))


@holds("expectation.sibling", {"port": 1}, {"port": 0})
def expectation(bench, *, port):
    """A head is expected exactly from child or parent, and waits for the child before it."""
    m = bench.m
    m.submodules.block = block = Expectation()
    m.d.comb += block.port.eq(port)
    entry = data.View(FLOW_ENTRY, bench.constant("entry", FLOW_ENTRY.size))
    op, single = bench.free("op"), bench.free("single")
    m.d.comb += [block.entry.eq(entry), block.op.eq(op), block.single.eq(single)]
    children = [entry.children[k] for k in range(8)]
    # As the check of flows lets pass: none twice, no gaps.
    for a in range(8):
        for b in range(a):
            bench.assume((children[a] != children[b]) | (children[a] == NO_PORT))
        if a:
            bench.assume((children[a] == NO_PORT) | (children[a - 1] != NO_PORT))
    which = bench.constant("which", 3)
    mine, before = children[0], Const(NO_PORT, 4)
    for k in range(1, 8):
        mine = Mux(which == k, children[k], mine)
        before = Mux(which == k, children[k - 1], before)
    fits = single == (entry.size == 0)
    bench.check(~op | (block.expected == ((entry.parent == port) & fits)))
    hit = ~op & (mine == port)
    bench.check(~hit | (block.expected == fits))
    bench.check(~hit | (block.after == (which != 0)))
    bench.check(~(hit & block.after) | (block.sibling == before))
    none = ~Cat(child == port for child in children).any()
    bench.check(~(~op & none) | (~block.expected & ~block.after))
    bench.cover("after", hit & block.after & block.expected & (entry.size == 2))


@holds("steps.lockstep", {"width": 2}, {"width": 4})
def steps(bench, *, width):
    """Steps come one by one, each after its time; a row goes in its own step or later."""
    m = bench.m
    m.submodules.block = block = StepCounter(Config(address_width=4))
    names = ("start", "row_valid", "nop")
    start, valid, nop = (bench.free(name) for name in names)
    row, cycles = bench.free("row_step", width), bench.constant("step_cycles", 2)
    m.d.comb += [
        block.run.lockstep.eq(1),
        block.run.step_cycles.eq(cycles),
        block.start.eq(start),
        block.row_step.eq(row),
        block.row_valid.eq(valid),
        block.nop.eq(nop),
    ]
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
    started = Signal()
    m.d.sync += started.eq(started | start)
    # Rows come in order: none is of a step before one that was in hand.
    last = Signal(width)
    with m.If(start):
        m.d.sync += last.eq(0)
    with m.Elif(valid):
        m.d.sync += last.eq(row)
    bench.assume(~valid | (row >= last) | start)
    bench.assume(step <= (1 << width) - 1)
    bench.check(~started | (block.step == step))
    goes = (row <= step) & (~nop | over)
    bench.check(~started | (block.go == goes))
    bench.cover("third", started & valid & block.go & (step == 2) & (row == 2) & (cycles == 3))


@holds("steps.free", {"width": 2})
def free_steps(bench, *, width):
    """Without lockstep every row goes when it comes."""
    m = bench.m
    m.submodules.block = block = StepCounter(Config(address_width=4))
    start, valid = bench.free("start"), bench.free("row_valid")
    row = bench.free("row_step", width)
    m.d.comb += [block.start.eq(start), block.row_step.eq(row), block.row_valid.eq(valid)]
    m.d.comb += [block.nop.eq(bench.free("nop")), block.run.step_cycles.eq(bench.free("c", 2))]
    step = Signal(width)
    with m.If(start):
        m.d.sync += step.eq(0)
    with m.Elif(valid):
        m.d.sync += step.eq(row)
    begun = bench.past(1)
    bench.check(block.go & (~begun | (block.step == step)))
    bench.cover("step", block.step == 2)


@holds(
    "link_check.channels",
    {"num_vcs": 2, "submessage_flits": 2},
    {"num_vcs": 3, "submessage_flits": 4},
)
def crc_channels(bench, *, num_vcs, submessage_flits):
    """Each channel's CRC is that of its own message, carried where a sub-message ends."""
    m = bench.m
    # Any step from state and content: what is looked at is whose state it is.
    bench.replace("multitree.hw.link.check.crc32_step", _any_step)
    sizes = {"flit_bytes": 1, "submessage_flits": submessage_flits}
    m.submodules.block = block = RunningCheck(num_vcs=num_vcs, **sizes)
    m.submodules.alone = alone = RunningCheck(**sizes)
    vc, kind = bench.free("vc", range(num_vcs)), bench.free("kind", 3)
    payload, advance = bench.free("payload", 8), bench.free("advance")
    clear, mine = bench.free("clear"), bench.constant("channel", range(num_vcs))
    bench.assume((vc < num_vcs) & (mine < num_vcs))
    # A control flit has a CRC of its own, and leaves the message's alone.
    bench.assume(~advance | ~kind[2])
    m.d.comb += [
        block.flit.kind.as_value().eq(kind),
        block.flit.vc.eq(vc),
        block.flit.payload.eq(payload),
        block.advance.eq(advance),
        block.clear.eq(clear),
        alone.flit.kind.as_value().eq(kind),
        # The channel is part of what the CRC is of.
        alone.flit.payload.eq(payload),
        alone.advance.eq(advance & (vc == mine)),
        alone.clear.eq(clear),
    ]
    same = (block.check == alone.check) & (block.carries == alone.carries)
    bench.check((vc != mine) | same)
    place, head = Signal(range(submessage_flits)), Kind.HEAD.value
    first = (kind == head) | (kind == Kind.SINGLE.value) | kind[2]
    with m.If(clear):
        m.d.sync += place.eq(0)
    with m.Elif(advance & (vc == mine)):
        m.d.sync += place.eq(Mux(first, 0, place + 1))
    last = (kind == Kind.TAIL.value) | (kind == Kind.SINGLE.value) | kind[2]
    carries = last | ((kind == Kind.BODY.value) & place.all())
    bench.check((vc != mine) | (block.carries == carries))
    bench.cover("second", carries & (kind == Kind.BODY.value) & (vc == mine) & (mine != 0))


def _any_step(state, content, *, sums):
    """In the place of a CRC's step: depends on all that it is of but the channel's number."""
    folded = content[0]
    for place in range(1, len(content)):
        if place < 11:
            folded = folded ^ content[place]
    return Cat(state[1:], state[0] ^ folded)
