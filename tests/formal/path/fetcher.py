"""Properties of the fetcher: rows once and in order, none from an illegal one on."""

from amaranth import Cat, Mux, Signal

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.send.fetcher import Fetcher
from multitree.nic.send.pipelined_fetcher import PipelinedFetcher
from tests.formal.bench import holds
from tests.formal.control.words import NOP, illegal_entry, illegal_row, table

_SIZES = (
    {"num_ports": 1, "table_depth": 2, "lockstep": False},
    {"num_ports": 2, "table_depth": 5, "lockstep": False},
    {"num_ports": 2, "table_depth": 3, "lockstep": True},
    {"num_ports": 2, "table_depth": 3, "lockstep": False, "forward_flits": 32},
    {"num_ports": 1, "table_depth": 3, "lockstep": True, "forward_flits": 32},
)

BOUND_CYCLES = 22
"""Cycles searched where a proof takes too long: a run of a table of five rows takes 22."""
WAVES_CYCLES = 36
"""The same of waves: three runs of a row take 24 cycles."""
PIPED_CYCLES = 20
"""The same of waves, a row per cycle: three runs of two rows take 14 cycles."""


def _fetcher(bench, *, num_ports, table_depth, lockstep, wave_width=0, forward_flits=0):
    """The block as the control drives it, and a fault monitor's memory."""
    m = bench.m
    sizes = {"num_ports": num_ports, "table_depth": table_depth, "wave_width": wave_width}
    config = Config(**sizes, num_flows=4, address_width=4, forward_flits=forward_flits)
    # Few rows on their way, so that those behind them wait for room.
    bench.replace("multitree.nic.send.pipelined_fetcher.FETCHED_ROWS", 3)
    block = (PipelinedFetcher if forward_flits else Fetcher)(config)
    m.submodules.block = block
    faulted = Signal()
    m.d.sync += faulted.eq(faulted | block.fault.any() | bench.free("fault_elsewhere"))
    m.d.comb += [
        block.run.faulted.eq(faulted),
        block.run.lockstep.eq(lockstep),
        block.run.num_rows.eq(bench.constant("num_rows", range(table_depth + 1))),
        block.run.num_flows.eq(bench.constant("num_flows", range(5))),
        block.run.window_flits.eq(bench.constant("window_flits", 4)),
        block.run.step_cycles.eq(bench.constant("step_cycles", 2)),
        block.start.eq(bench.free("start")),
        block.row_intact.eq(bench.free("row_intact")),
        block.lookup.intact.eq(bench.free("flow_intact")),
        block.lookup.granted.eq(block.lookup.valid & (bench.free("granted") | bool(forward_flits))),
    ]
    for port, jobs in enumerate(block.jobs):
        m.d.comb += jobs.ready.eq(bench.free(f"ready_{port}"))
    bench.assume(~block.start | ~(block.busy | faulted))
    bench.assume(block.run.num_rows <= table_depth)
    addresses = {"row_address": block.address, "flow_address": block.lookup.flow}
    words = table(bench, **addresses, wave_width=wave_width)
    m.d.comb += [block.row.eq(words.shown_row), block.lookup.entry.eq(words.shown_entry)]
    return block, words


def _fired(bench, block):
    """A job is handed out: whether, its row's number, and to which port."""
    m = bench.m
    fired, number, port = Signal(), Signal(16), Signal(4)
    for index, jobs in enumerate(block.jobs):
        with m.If(jobs.valid & jobs.ready):
            m.d.comb += [fired.eq(1), number.eq(jobs.payload.row), port.eq(index)]
    bench.check(sum(jobs.valid for jobs in block.jobs) <= 1)
    return fired, number, port


@holds("fetcher.illegal", *_SIZES, depth=BOUND_CYCLES)
def illegal(bench, *, num_ports, table_depth, lockstep, forward_flits=0):
    """An illegal row, or one that flipped, sends nothing, nor any after it."""
    m = bench.m
    sizes = {"num_ports": num_ports, "table_depth": table_depth, "lockstep": lockstep}
    block, words = _fetcher(bench, **sizes, forward_flits=forward_flits)
    fired, number, _ = _fired(bench, block)
    run = block.run
    bad = illegal_row(words.row, num_ports, run.num_flows) | (
        (words.row.op != NOP) & illegal_entry(words.entry, num_ports, run.window_flits)
    )
    bench.check(~(fired & bad) | (number < words.index))
    # The first row that flipped: those before it may be on their way when it is read.
    least, at = Signal(17, init=(1 << 17) - 1), bench.past(bench.past(block.address))
    answered, entry_of = bench.past(bench.past(block.lookup.granted)), bench.past(bench.past(at))
    with m.If(block.lookup.granted & ~block.row_intact & (at < least)):
        m.d.sync += least.eq(at)
    # The entry that is asked for with a row of no flow is not used.
    sends = bench.past(bench.past(block.row.op != NOP))
    with m.If(answered & sends & ~block.lookup.intact & (entry_of < least)):
        m.d.sync += least.eq(entry_of)
    bench.check(~fired | ((number < least) & ~run.faulted))
    bench.cover("before", fired & bad & (words.index == 1) & (run.num_rows > 1))


@holds("fetcher.rows", *_SIZES)
def rows(bench, *, num_ports, table_depth, lockstep, forward_flits=0):
    """Each row once, in order, to its port, with its flow's chunk."""
    m = bench.m
    sizes = {"num_ports": num_ports, "table_depth": table_depth, "lockstep": lockstep}
    block, words = _fetcher(bench, **sizes, forward_flits=forward_flits)
    index, row, entry = words.index, words.row, words.entry
    fired, number, port = _fired(bench, block)
    following, mine, running = Signal(17), Signal(), Signal()
    with m.If(block.start):
        m.d.sync += [following.eq(0), mine.eq(0), running.eq(1)]
    with m.Elif(fired):
        m.d.sync += [following.eq(number + 1), mine.eq(mine | (number == index))]
    sent = row.op != NOP
    ended = bench.past(block.busy & ~block.run.faulted) & ~block.busy & ~block.run.faulted
    bench.check(~fired | (running & (number >= following) & (number < block.run.num_rows)))
    bench.check(~(fired & (number > index) & sent) | mine)
    due = (index < block.run.num_rows) & sent
    bench.check(~(ended & due) | mine)
    is_mine = fired & (number == index)
    bench.check(~(is_mine & mine))
    for jobs in block.jobs:
        job = jobs.payload
        right = Cat(
            job.flow == row.flow,
            job.op == row.op,
            job.base == entry.base[:4],
            job.size == entry.size[:4],
        ).all()
        bench.check(~(is_mine & jobs.valid) | (right & sent & (port == row.port)))
    bench.cover("second", is_mine & (index == 1))
    bench.cover("ended", ended & mine)


@holds(
    "fetcher.piped_waves",
    {"num_ports": 2, "table_depth": 2, "wave_width": 1, "forward_flits": 32},
    depth=PIPED_CYCLES,
    claim="the same where rows follow each other: once per wave, in order, a run apart",
)
@holds(
    "fetcher.waves",
    {"num_ports": 1, "table_depth": 2, "wave_width": 1},
    {"num_ports": 2, "table_depth": 3, "wave_width": 2},
    depth=WAVES_CYCLES,
    claim="each row once per wave, in order, a run apart, at its wave's place, which is an address",
)
def waves(bench, *, num_ports, table_depth, wave_width, forward_flits=0):
    """Every row goes once for each wave, in order, to its wave's place, run by run."""
    m = bench.m
    sizes = {"num_ports": num_ports, "table_depth": table_depth, "wave_width": wave_width}
    block, words = _fetcher(bench, **sizes, lockstep=False, forward_flits=forward_flits)
    index, row, entry, run = words.index, words.row, words.entry, block.run
    last_wave, last_stage = (bench.constant(f"last_{n}", wave_width) for n in ("wave", "stage"))
    m.d.comb += [run.last_wave.eq(last_wave), run.last_run.eq(last_wave + last_stage)]
    bench.assume(row.stage <= last_stage)
    fired, number, port = _fired(bench, block)
    # How many waves of the row went, how many runs began since, and the row that went last.
    gone, begun, before = Signal(wave_width + 2), Signal(2), Signal(17)
    is_mine = fired & (number == index)
    with m.If(block.start):
        m.d.sync += [gone.eq(0), begun.eq(0), before.eq(0)]
    with m.Elif(fired):
        m.d.sync += [before.eq(number), gone.eq(gone + is_mine)]
        m.d.sync += begun.eq(Mux(is_mine, 0, begun + ((number < before) & ~begun[1])))
    sent = row.op != NOP
    ended = bench.past(block.busy & ~run.faulted) & ~block.busy & ~run.faulted
    due = (index < run.num_rows) & sent
    bench.check(~is_mine | (due & (gone <= last_wave)))
    bench.check(~(ended & due) | (gone == last_wave + 1))
    # No more than one run lies between two waves of a row.
    within = (gone != 0) & (gone <= last_wave) & due
    bench.check(~(fired & within & ~is_mine) | ~begun[1])
    place = Signal(8)
    m.d.comb += place.eq(entry.base[:4] + gone * entry.stride[:4])
    for jobs in block.jobs:
        job = jobs.payload
        right = Cat(
            job.flow == row.flow,
            job.op == row.op,
            job.wave == gone,
            job.base == place,
            job.size == entry.size[:4],
        ).all()
        bench.check(~(is_mine & jobs.valid) | (right & sent & (port == row.port)))
    bench.cover("last", is_mine & (gone == 1) & (index == 1) & (row.stage == 1))
    bench.cover("ended", ended & (gone == 2) & (row.stage == 1))
    bench.cover("beyond", block.fault == FaultCode.OUT_OF_WINDOW)
