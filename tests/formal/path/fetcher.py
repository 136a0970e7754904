"""Properties of the fetcher: rows once and in order, none from an illegal one on."""

from amaranth import Mux, Signal

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.send.fetcher import Fetcher
from multitree.nic.send.pipelined_fetcher import PipelinedFetcher
from tests.formal.bench import alike, holds, sets, transfer
from tests.formal.control.words import NOP, illegal_entry, illegal_row, table

_SIZES = (
    *sets("num_ports table_depth lockstep", (1, 2, False), (2, 5, False), (2, 3, True)),
    *sets("num_ports table_depth lockstep forward_flits", (2, 3, False, 32), (1, 3, True, 32)),
)

BOUND_CYCLES = 22
"""Cycles searched where a proof takes too long: a run of a table of five rows takes 22."""
WAVES_CYCLES = 36
"""The same of waves: three runs of a row take 24 cycles."""
PIPED_CYCLES = 20
"""The same of waves, a row per cycle: three runs of two rows take 14 cycles."""


def _fetcher(m, *, num_ports, table_depth, lockstep, wave_width=0, forward_flits=0):
    """The block as the control drives it, and a fault monitor's memory."""
    sizes = {"num_ports": num_ports, "table_depth": table_depth, "wave_width": wave_width}
    config = Config(**sizes, num_flows=4, address_width=4, forward_flits=forward_flits)
    # Few rows on their way, so that those behind them wait for room.
    m.replace("multitree.nic.send.pipelined_fetcher.FETCHED_ROWS", 3)
    block = (PipelinedFetcher if forward_flits else Fetcher)(config)
    m.submodules.block = block
    faulted = m.ever(block.fault.any() | m.free("fault_elsewhere"))
    m.drive(block.start, block.row_intact, block.lookup.intact, *block.jobs)
    m.fix(block.run.window_flits, block.run.step_cycles[:2])
    m.d.comb += [
        block.run.faulted.eq(faulted),
        block.run.lockstep.eq(lockstep),
        block.run.num_rows.eq(m.constant("num_rows", range(table_depth + 1))),
        block.run.num_flows.eq(m.constant("num_flows", range(5))),
        block.lookup.granted.eq(block.lookup.valid & (m.free("granted") | bool(forward_flits))),
    ]
    m.assume(~block.start | ~(block.busy | faulted))
    m.assume(block.run.num_rows <= table_depth)
    addresses = {"row_address": block.address, "flow_address": block.lookup.flow}
    words = table(m, **addresses, wave_width=wave_width)
    m.d.comb += [block.row.eq(words.shown_row), block.lookup.entry.eq(words.shown_entry)]
    return block, words


def _fired(m, block):
    """A job is handed out: whether, its row's number, and to which port."""
    fired, number, port = Signal(), Signal(16), Signal(4)
    for index, jobs in enumerate(block.jobs):
        with m.If(transfer(jobs)):
            m.d.comb += [fired.eq(1), number.eq(jobs.payload.row), port.eq(index)]
    m.check(sum(jobs.valid for jobs in block.jobs) <= 1)
    return fired, number, port


def _ended(m, block):
    """A run of the table is over, and no row of it was wrong."""
    faulted = block.run.faulted
    return m.past(block.busy & ~faulted) & ~block.busy & ~faulted


@holds("fetcher.illegal", *_SIZES, depth=BOUND_CYCLES)
def illegal(m, *, num_ports, **sizes):
    """An illegal row, or one that flipped, sends nothing, nor any after it."""
    block, words = _fetcher(m, num_ports=num_ports, **sizes)
    fired, number, _ = _fired(m, block)
    run = block.run
    bad = illegal_row(words.row, num_ports, run.num_flows) | (
        (words.row.op != NOP) & illegal_entry(words.entry, num_ports, run.window_flits)
    )
    m.check(~(fired & bad) | (number < words.index))
    # The first row that flipped: those before it may be on their way when it is read.
    least, at = Signal(17, init=(1 << 17) - 1), m.past(block.address, 2)
    answered, entry_of = m.past(block.lookup.granted, 2), m.past(at, 2)
    with m.If(block.lookup.granted & ~block.row_intact & (at < least)):
        m.d.sync += least.eq(at)
    # The entry that is asked for with a row of no flow is not used.
    sends = m.past(block.row.op != NOP, 2)
    with m.If(answered & sends & ~block.lookup.intact & (entry_of < least)):
        m.d.sync += least.eq(entry_of)
    m.check(~fired | ((number < least) & ~run.faulted))
    m.cover("before", fired & bad & (words.index == 1) & (run.num_rows > 1))


@holds("fetcher.rows", *_SIZES)
def rows(m, **sizes):
    """Each row once, in order, to its port, with its flow's chunk."""
    block, words = _fetcher(m, **sizes)
    index, row, entry = words.index, words.row, words.entry
    fired, number, port = _fired(m, block)
    following, mine, running = Signal(17), Signal(), Signal()
    with m.If(block.start):
        m.d.sync += [following.eq(0), mine.eq(0), running.eq(1)]
    with m.Elif(fired):
        m.d.sync += [following.eq(number + 1), mine.eq(mine | (number == index))]
    sent, ended = row.op != NOP, _ended(m, block)
    m.check(~fired | (running & (number >= following) & (number < block.run.num_rows)))
    m.check(~(fired & (number > index) & sent) | mine)
    due = (index < block.run.num_rows) & sent
    m.check(~(ended & due) | mine)
    is_mine = fired & (number == index)
    m.check(~(is_mine & mine))
    for jobs in block.jobs:
        job = jobs.payload
        right = alike(job, row, "flow op") & (job.base == entry.base[:4])
        right &= (job.size == entry.size[:4]) & sent & (port == row.port)
        m.check(~(is_mine & jobs.valid) | right)
    m.cover("second", is_mine & (index == 1))
    m.cover("ended", ended & mine)


@holds(
    "fetcher.piped_waves",
    {"num_ports": 2, "table_depth": 2, "wave_width": 1, "forward_flits": 32},
    depth=PIPED_CYCLES,
    claim="the same where rows follow each other: once per wave, in order, a run apart",
)
@holds(
    "fetcher.waves",
    *sets("num_ports table_depth wave_width", (1, 2, 1), (2, 3, 2)),
    depth=WAVES_CYCLES,
    claim="each row once per wave, in order, a run apart, at its wave's place, which is an address",
)
def waves(m, *, wave_width, **sizes):
    """Every row goes once for each wave, in order, to its wave's place, run by run."""
    block, words = _fetcher(m, **sizes, wave_width=wave_width, lockstep=False)
    index, row, entry, run = words.index, words.row, words.entry, block.run
    last_wave, last_stage = (m.constant(f"last_{n}", wave_width) for n in ("wave", "stage"))
    m.d.comb += [run.last_wave.eq(last_wave), run.last_run.eq(last_wave + last_stage)]
    m.assume(row.stage <= last_stage)
    fired, number, port = _fired(m, block)
    # How many waves of the row went, how many runs began since, and the row that went last.
    gone, begun, before = Signal(wave_width + 2), Signal(2), Signal(17)
    is_mine = fired & (number == index)
    with m.If(block.start):
        m.d.sync += [gone.eq(0), begun.eq(0), before.eq(0)]
    with m.Elif(fired):
        m.d.sync += [before.eq(number), gone.eq(gone + is_mine)]
        m.d.sync += begun.eq(Mux(is_mine, 0, begun + ((number < before) & ~begun[1])))
    sent, ended = row.op != NOP, _ended(m, block)
    due = (index < run.num_rows) & sent
    m.check(~is_mine | (due & (gone <= last_wave)))
    m.check(~(ended & due) | (gone == last_wave + 1))
    # No more than one run lies between two waves of a row.
    within = (gone != 0) & (gone <= last_wave) & due
    m.check(~(fired & within & ~is_mine) | ~begun[1])
    place = Signal(8)
    m.d.comb += place.eq(entry.base[:4] + gone * entry.stride[:4])
    for jobs in block.jobs:
        job = jobs.payload
        right = alike(job, row, "flow op") & (job.wave == gone) & (job.base == place)
        right &= (job.size == entry.size[:4]) & sent & (port == row.port)
        m.check(~(is_mine & jobs.valid) | right)
    m.cover("last", is_mine & (gone == 1) & (index == 1) & (row.stage == 1))
    m.cover("ended", ended & (gone == 2) & (row.stage == 1))
    m.cover("beyond", block.fault == FaultCode.OUT_OF_WINDOW)
