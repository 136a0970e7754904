"""AXI4 managers over time: all is answered, and no stray answer is believed."""

from amaranth import Mux, Signal

from multitree.hw.axi.bursts import AxiReader, AxiWriter
from tests.formal.bench import holds
from tests.formal.hw.axi import Count, answers, manager

_SIZES = {"address_width": 3, "depth": 3, "page_flits": 4, "beats": 2}


def _seldom(bench, condition, *, most, name):
    """Check that the condition holds for no more than `most` cycles on end; count them."""
    cycles = Signal(range(most + 2), name=name)
    bench.m.d.sync += cycles.eq(Mux(condition, cycles + 1, 0))
    bench.check(cycles <= most)
    return cycles


def _progress(bench, channel, back, *, given, comes, depth, quiet_cycles, limit):
    """The bus answers what it was given within `quiet_cycles`; the manager within `limit`."""
    m = bench.m
    owed, quiet = Signal(range(2 * depth)), Signal(range(quiet_cycles + 2))
    bench.assume((owed != 0) | ~comes)
    bench.assume(quiet <= quiet_cycles)
    m.d.sync += [
        owed.eq(owed + given - comes),
        quiet.eq(Mux((owed != 0) & ~comes, quiet + 1, 0)),
    ]
    held = Signal(range(depth + 1))
    m.d.sync += held.eq(held + (channel.valid & channel.ready) - back)
    waits = _seldom(bench, (held != 0) & ~back, most=limit, name="unanswered")
    refused = _seldom(bench, channel.valid & ~channel.ready, most=limit, name="refused")
    bench.cover("longest wait", waits == limit)
    bench.cover("refused", refused != 0)


@holds("axi.read_progress", {**_SIZES, "gather_cycles": 1, "quiet_cycles": 2})
def read_progress(bench, *, depth, gather_cycles, quiet_cycles, **sizes):
    """With a bus that answers, a read waits for gathering, answer and 2 cycles at most.

    AR is taken at once; a beat comes, good or bad, after `quiet_cycles` without at most.
    """
    block = manager(bench, AxiReader, depth=depth, gather_cycles=gather_cycles, **sizes)
    channel, bus = block.channel, block.bus
    comes, _ = answers(bench, bus, "r")
    bench.m.d.comb += bus.arready.eq(1)
    _progress(
        bench,
        channel,
        channel.data_valid,
        given=Mux(bus.arvalid, bus.arlen + 1, 0),
        comes=comes,
        depth=depth,
        quiet_cycles=quiet_cycles,
        limit=gather_cycles + quiet_cycles + 2,
    )


@holds(
    "axi.write_progress",
    {**_SIZES, "page_flits": 2, "gather_cycles": 0, "quiet_cycles": 1},
    quick_depth=8,
)
def write_progress(bench, *, depth, gather_cycles, quiet_cycles, **sizes):
    """With a bus that answers, a write waits for gathering twice, answer and 4 cycles at most.

    AW and W are taken at once; the response, good or bad, after `quiet_cycles` at most.
    """
    block = manager(bench, AxiWriter, depth=depth, gather_cycles=gather_cycles, **sizes)
    channel, bus = block.channel, block.bus
    comes, _ = answers(bench, bus, "b")
    bench.m.d.comb += [bus.awready.eq(1), bus.wready.eq(1)]
    _progress(
        bench,
        channel,
        channel.ack,
        given=bus.wvalid & bus.wlast,
        comes=comes,
        depth=depth,
        quiet_cycles=quiet_cycles,
        limit=2 * gather_cycles + quiet_cycles + 4,
    )


@holds(
    "axi.strays",
    {"writes": False, **_SIZES, "gather_cycles": 1},
    {"writes": True, **_SIZES, "gather_cycles": 1},
)
def strays(bench, *, writes, depth, **sizes):
    """An answer to nothing is an error, and neither a datum nor an acknowledgement."""
    block = manager(bench, AxiWriter if writes else AxiReader, depth=depth, **sizes)
    channel = block.channel
    for name in ("aw", "w") if writes else ("ar",):
        bench.m.d.comb += getattr(block.bus, f"{name}ready").eq(bench.free(f"{name}ready"))
    comes, _ = answers(bench, block.bus, "b" if writes else "r")
    taken, back = channel.valid & channel.ready, channel.ack if writes else channel.data_valid
    inside = Count(bench, taken, back, capacity=depth, name="inside")
    bench.check(~back | (inside.held != 0))
    stray = comes & (inside.held == 0)
    bench.check(~stray | channel.error)
    bench.cover("stray", stray)
    bench.cover("full", inside.held == depth)
