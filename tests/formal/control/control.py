"""Properties of the control: done is never early, and busy always ends."""

from amaranth import Mux, Signal

from multitree.nic.control.collective import Control
from multitree.nic.control.monitor import FaultMonitor, Watchdog
from multitree.nic.driver.config import Config
from tests.formal.bench import holds


def _control(bench, num_ports, wave_width=0):
    """The block with free commands and blocks around it, commands only as its contract allows."""
    m = bench.m
    config = Config(num_ports=num_ports, wave_width=wave_width)
    m.submodules.block = block = Control(config)
    if wave_width:
        m.d.comb += block.last_stage.eq(bench.free("last_stage", wave_width))
    names = ("commit", "start", "acknowledge", "legal", "checking", "clearing", "refused")
    for name in (*names, "fetching", "sending", "arrived", "iterations"):
        signal = getattr(block, name)
        m.d.comb += signal.eq(bench.free(name, len(signal)))
    m.d.comb += block.num_arrivals.eq(bench.free("num_arrivals", 4))
    bench.assume(~(block.commit & block.locked))
    bench.assume(~(block.start & block.start_waits))
    return block


@holds("control.done", {"num_ports": 1}, {"num_ports": 4})
def done(bench, *, num_ports):
    """Over only when all messages are in, nothing fetched, nothing sent; done only then."""
    m = bench.m
    block = _control(bench, num_ports)
    m.d.comb += block.faulted.eq(bench.free("faulted"))
    expected, missing = Signal(20), Signal(20)
    came = sum(bit for bit in block.arrived)
    with m.If(block.swap):
        m.d.sync += expected.eq(block.num_arrivals)
    with m.If(block.launch):
        m.d.sync += missing.eq(expected)
    with m.Elif(block.held):
        m.d.sync += missing.eq(missing - came)
    bench.assume(~block.held | (came <= missing))
    quiet = (missing == 0) & ~block.fetching & ~block.sending & block.running
    over = block.sequence != bench.past(block.sequence)
    bench.check(over == bench.past(quiet))
    bench.check(~(block.done & ~bench.past(block.done)) | over)
    # Up to three that are done are counted until each is acknowledged.
    unread, left = Signal(2), Signal(2)
    m.d.comb += left.eq(unread - (block.acknowledge & unread.any()))
    m.d.sync += unread.eq(left + (quiet & ~left.all()))
    bench.check(block.done == unread.any())
    bench.check(block.irq == bench.past(block.faulted | left.any()))
    bench.check(~(block.running & ~block.held) & ~(block.held & ~block.busy))
    bench.cover("done", over & bench.past(bench.past(came.any())))


@holds("control.start", {"num_ports": 1}, {"num_ports": 8})
def start(bench, *, num_ports):
    """Each start runs once: a checked table, legal settings, none during another or a swap."""
    m = bench.m
    block = _control(bench, num_ports)
    m.d.comb += block.faulted.eq(bench.free("faulted"))
    stands, checked, waits = Signal(), Signal(), Signal()
    with m.If(block.launch | block.fault.any() | (block.faulted & ~block.held)):
        m.d.sync += stands.eq(0)
    with m.Elif(block.start):
        m.d.sync += stands.eq(1)
    m.d.sync += checked.eq(checked | block.swap)
    bench.check(~block.launch | stands | block.start)
    # None is forgotten but by a fault.
    bench.check(block.start_waits == stands)
    bench.check(~block.launch | (checked & block.legal & (block.iterations == 0)))
    # A start that comes with a commit, or behind one, is of the new table.
    bench.check(~block.launch | ~(waits | block.check))
    bench.check(~block.launch | (~block.held & ~block.faulted & ~block.swap))
    bench.check(~block.swap | (~block.held & ~block.checking & ~block.clearing & ~block.refused))
    bench.check((block.bank != bench.past(block.bank)) == bench.past(block.swap))
    with m.If(block.swap | block.refuse | block.faulted):
        m.d.sync += waits.eq(0)
    with m.Elif(block.check):
        m.d.sync += waits.eq(1)
    bench.cover("second", block.launch & (block.sequence == 1) & block.bank)
    bench.cover("behind", block.launch & bench.past(bench.past(block.swap)))
    with_start = Signal()
    with m.If(block.check):
        m.d.sync += with_start.eq(block.start & checked)
    bench.cover("with", block.launch & bench.past(block.swap) & with_start)


@holds("control.waves", {"num_ports": 1, "wave_width": 2}, {"num_ports": 4, "wave_width": 11})
def waves(bench, *, num_ports, wave_width):
    """Each collective has as many runs of its table as waves and stages, none too many."""
    m = bench.m
    block = _control(bench, num_ports, wave_width)
    m.d.comb += block.faulted.eq(bench.free("faulted"))
    stage, runs = Signal(wave_width), Signal(wave_width + 1)
    with m.If(block.swap):
        m.d.sync += stage.eq(block.last_stage)
    with m.If(block.launch):
        m.d.sync += runs.eq(block.iterations[:wave_width] + stage)
    bench.check(~block.launch | (block.iterations[wave_width:] == 0))
    bench.check(~block.held | (block.last_run == runs))
    bench.cover("most", block.running & (block.last_run == 2 ** (wave_width + 1) - 2))
    bench.cover("another", block.launch & block.bank & (block.sequence == 1) & (stage == 0))


@holds(
    "control.progress",
    {"num_ports": 1, "limit_cycles": 2, "moves": 1},
    {"num_ports": 2, "limit_cycles": 3, "moves": 3},
)
def progress(bench, *, num_ports, limit_cycles, moves):
    """Busy ends in done or a fault within (moves + 2) x (watchdog + 4) cycles.

    Busy ends in done or a fault: each thing that moves buys one watchdog's time.
    """
    m = bench.m
    block = _control(bench, num_ports)
    m.submodules.watchdog = watchdog = Watchdog()
    m.submodules.monitor = monitor = FaultMonitor(Config(num_ports=num_ports))
    moved, arrived = bench.free("moved"), bench.free("submessage")
    m.d.comb += [
        block.faulted.eq(monitor.faulted),
        watchdog.running.eq(block.running),
        watchdog.progress.eq(moved),
        watchdog.arrived.eq(arrived),
        watchdog.watchdog_cycles.eq(limit_cycles),
        watchdog.first_arrival_cycles.eq(limit_cycles + 2),
        monitor.watchdog.eq(watchdog.code),
        monitor.control.eq(block.fault),
    ]
    # A check of the table ends by itself: the checker and the clearing take that long.
    checking, total = Signal(range(limit_cycles + 2)), Signal(range(moves + 2))
    at_work = block.checking | block.clearing
    m.d.sync += checking.eq(Mux(at_work & (checking <= limit_cycles), checking + 1, 0))
    bench.assume((checking < limit_cycles) | ~at_work)
    # One commit, one start, both or none; what begins a check is a commit.
    bench.assume(~block.busy | ~(block.commit | block.start))
    bench.assume(~at_work | bench.past(at_work | block.check))
    with m.If(~block.busy):
        m.d.sync += total.eq(0)
    with m.Elif(moved):
        m.d.sync += total.eq(total + 1)
    bench.assume(~moved | (total < moves))
    bound = (moves + 1) * (limit_cycles + 4) + limit_cycles + 4
    busy = Signal(range(bound + 2))
    m.d.sync += busy.eq(Mux(block.busy, busy + 1, 0))
    bench.check(busy <= bound)
    bench.cover("done", block.done)
    bench.cover("fault", monitor.faulted & (busy > limit_cycles))
