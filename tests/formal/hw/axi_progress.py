"""AXI4 managers over time: all is answered, and no stray answer is believed."""

from amaranth import Mux, Signal

from multitree.hw.axi.bursts import AxiReader, AxiWriter
from tests.formal.bench import holds, transfer
from tests.formal.hw.axi import Count, answers, manager

_SIZES = {"address_width": 3, "depth": 3, "page_flits": 4, "beats": 2}


def _progress(m, block, back, *, given, answers_on, quiet_cycles, limit):
    """The bus answers what it was given within `quiet_cycles`; the manager within `limit`."""
    channel, depth, (comes, _) = block.channel, _SIZES["depth"], answers(m, block.bus, answers_on)
    owed, quiet = Signal(range(2 * depth)), Signal(range(quiet_cycles + 2))
    m.assume((owed != 0) | ~comes)
    m.assume(quiet <= quiet_cycles)
    m.d.sync += [owed.eq(owed + given - comes), quiet.eq(Mux((owed != 0) & ~comes, quiet + 1, 0))]
    held = Signal(range(depth + 1))
    m.d.sync += held.eq(held + transfer(channel) - back)
    waits = m.lasts((held != 0) & ~back, limit)
    refused = m.lasts(channel.valid & ~channel.ready, limit)
    m.cover("longest wait", waits == limit)
    m.cover("refused", refused != 0)


@holds("axi.read_progress", {**_SIZES, "gather_cycles": 1, "quiet_cycles": 2})
def read_progress(m, *, gather_cycles, quiet_cycles, **sizes):
    """With a bus that answers, a read waits for gathering, answer and 2 cycles at most.

    AR is taken at once; a beat comes, good or bad, after `quiet_cycles` without at most.
    """
    block = manager(m, AxiReader, gather_cycles=gather_cycles, **sizes)
    m.d.comb += block.bus.arready.eq(1)
    given = Mux(block.bus.arvalid, block.bus.arlen + 1, 0)
    sizes = {"quiet_cycles": quiet_cycles, "limit": gather_cycles + quiet_cycles + 2}
    _progress(m, block, block.channel.data_valid, given=given, answers_on="r", **sizes)


@holds(
    "axi.write_progress",
    {**_SIZES, "page_flits": 2, "gather_cycles": 0, "quiet_cycles": 1},
    quick_depth=8,
)
def write_progress(m, *, gather_cycles, quiet_cycles, **sizes):
    """With a bus that answers, a write waits for gathering twice, answer and 4 cycles at most.

    AW and W are taken at once; the response, good or bad, after `quiet_cycles` at most.
    """
    block = manager(m, AxiWriter, gather_cycles=gather_cycles, **sizes)
    m.d.comb += [block.bus.awready.eq(1), block.bus.wready.eq(1)]
    given = block.bus.wvalid & block.bus.wlast
    sizes = {"quiet_cycles": quiet_cycles, "limit": 2 * gather_cycles + quiet_cycles + 4}
    _progress(m, block, block.channel.ack, given=given, answers_on="b", **sizes)


@holds(
    "axi.strays",
    {"writes": False, **_SIZES, "gather_cycles": 1},
    {"writes": True, **_SIZES, "gather_cycles": 1},
)
def strays(m, *, writes, depth, **sizes):
    """An answer to nothing is an error, and neither a datum nor an acknowledgement."""
    block = manager(m, AxiWriter if writes else AxiReader, depth=depth, **sizes)
    channel = block.channel
    for name in ("aw", "w") if writes else ("ar",):
        m.drive(getattr(block.bus, f"{name}ready"))
    comes, _ = answers(m, block.bus, "b" if writes else "r")
    taken, back = transfer(channel), channel.ack if writes else channel.data_valid
    inside = Count(m, taken, back, capacity=depth, name="inside")
    m.check(~back | (inside.held != 0))
    stray = comes & (inside.held == 0)
    m.check(~stray | channel.error)
    m.cover("stray", stray)
    m.cover("full", inside.held == depth)
