"""Properties of the control: done is never early, and busy always ends."""

from amaranth import Mux, Signal

from multitree.nic.control.collective import Control
from multitree.nic.control.monitor import FaultMonitor, Watchdog
from multitree.nic.driver.config import Config
from tests.formal.bench import holds, sets


def _control(m, num_ports, wave_width=0):
    """The block with free commands and blocks around it, commands only as its contract allows."""
    config = Config(num_ports=num_ports, wave_width=wave_width)
    m.submodules.block = block = Control(config)
    if wave_width:
        m.drive(block.last_stage)
    m.drive(block.commit, block.start, block.acknowledge, block.legal, block.checking)
    m.drive(block.clearing, block.refused, block.fetching, block.sending, block.arrived)
    m.drive(block.iterations, block.num_arrivals[:4])
    m.assume(~(block.commit & block.locked))
    m.assume(~(block.start & block.start_waits))
    return block


@holds("control.done", {"num_ports": 1}, {"num_ports": 4})
def done(m, *, num_ports):
    """Over only when all messages are in, nothing fetched, nothing sent; done only then."""
    block = _control(m, num_ports)
    m.drive(block.faulted)
    missing, came = Signal(20), sum(bit for bit in block.arrived)
    expected = m.latch(block.swap, block.num_arrivals)
    with m.If(block.launch):
        m.d.sync += missing.eq(expected)
    with m.Elif(block.held):
        m.d.sync += missing.eq(missing - came)
    m.assume(~block.held | (came <= missing))
    quiet = (missing == 0) & ~block.fetching & ~block.sending & block.running
    over = block.sequence != m.past(block.sequence)
    m.check(over == m.past(quiet))
    m.check(~(block.done & ~m.past(block.done)) | over)
    # Up to three that are done are counted until each is acknowledged.
    unread, left = Signal(2), Signal(2)
    m.d.comb += left.eq(unread - (block.acknowledge & unread.any()))
    m.d.sync += unread.eq(left + (quiet & ~left.all()))
    m.check(block.done == unread.any())
    m.check(block.irq == m.past(block.faulted | left.any()))
    m.check(~(block.running & ~block.held) & ~(block.held & ~block.busy))
    m.cover("done", over & m.past(came.any(), 2))


@holds("control.start", {"num_ports": 1}, {"num_ports": 8})
def start(m, *, num_ports):
    """Each start runs once: a checked table, legal settings, none during another or a swap."""
    block = _control(m, num_ports)
    m.drive(block.faulted)
    stands, waits, checked = Signal(), Signal(), m.ever(block.swap)
    with m.If(block.launch | block.fault.any() | (block.faulted & ~block.held)):
        m.d.sync += stands.eq(0)
    with m.Elif(block.start):
        m.d.sync += stands.eq(1)
    m.check(~block.launch | stands | block.start)
    # None is forgotten but by a fault.
    m.check(block.start_waits == stands)
    m.check(~block.launch | (checked & block.legal & (block.iterations == 0)))
    # A start that comes with a commit, or behind one, is of the new table.
    m.check(~block.launch | ~(waits | block.check))
    m.check(~block.launch | (~block.held & ~block.faulted & ~block.swap))
    m.check(~block.swap | (~block.held & ~block.checking & ~block.clearing & ~block.refused))
    m.check((block.bank != m.past(block.bank)) == m.past(block.swap))
    with m.If(block.swap | block.refuse | block.faulted):
        m.d.sync += waits.eq(0)
    with m.Elif(block.check):
        m.d.sync += waits.eq(1)
    m.cover("second", block.launch & (block.sequence == 1) & block.bank)
    m.cover("behind", block.launch & m.past(block.swap, 2))
    with_start = m.latch(block.check, block.start & checked)
    m.cover("with", block.launch & m.past(block.swap) & with_start)


@holds("control.waves", {"num_ports": 1, "wave_width": 2}, {"num_ports": 4, "wave_width": 11})
def waves(m, *, num_ports, wave_width):
    """Each collective has as many runs of its table as waves and stages, none too many."""
    block = _control(m, num_ports, wave_width)
    m.drive(block.faulted)
    stage = m.latch(block.swap, block.last_stage)
    runs = m.latch(block.launch, block.iterations[:wave_width] + stage)
    m.check(~block.launch | (block.iterations[wave_width:] == 0))
    m.check(~block.held | (block.last_run == runs))
    m.cover("most", block.running & (block.last_run == 2 ** (wave_width + 1) - 2))
    m.cover("another", block.launch & block.bank & (block.sequence == 1) & (stage == 0))


@holds("control.progress", *sets("num_ports limit_cycles moves", (1, 2, 1), (2, 3, 3)))
def progress(m, *, num_ports, limit_cycles, moves):
    """Busy ends in done or a fault within (moves + 2) x (watchdog + 4) cycles.

    Busy ends in done or a fault: each thing that moves buys one watchdog's time.
    """
    block = _control(m, num_ports)
    m.submodules.watchdog = watchdog = Watchdog()
    m.submodules.monitor = monitor = FaultMonitor(Config(num_ports=num_ports))
    m.drive(watchdog.progress, watchdog.arrived)
    moved = watchdog.progress
    m.d.comb += [
        block.faulted.eq(monitor.faulted),
        watchdog.running.eq(block.running),
        watchdog.watchdog_cycles.eq(limit_cycles),
        watchdog.first_arrival_cycles.eq(limit_cycles + 2),
        monitor.watchdog.eq(watchdog.code),
        monitor.control.eq(block.fault),
    ]
    # A check of the table ends by itself: the checker and the clearing take that long.
    checking, total = Signal(range(limit_cycles + 2)), Signal(range(moves + 2))
    at_work = block.checking | block.clearing
    m.d.sync += checking.eq(Mux(at_work & (checking <= limit_cycles), checking + 1, 0))
    m.assume((checking < limit_cycles) | ~at_work)
    # One commit, one start, both or none; what begins a check is a commit.
    m.assume(~block.busy | ~(block.commit | block.start))
    m.assume(~at_work | m.past(at_work | block.check))
    with m.If(~block.busy):
        m.d.sync += total.eq(0)
    with m.Elif(moved):
        m.d.sync += total.eq(total + 1)
    m.assume(~moved | (total < moves))
    bound = (moves + 1) * (limit_cycles + 4) + limit_cycles + 4
    busy = m.lasts(block.busy, bound)
    m.cover("done", block.done)
    m.cover("fault", monitor.faulted & (busy > limit_cycles))
