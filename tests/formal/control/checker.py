"""Properties of the checker: no table passes with an illegal or broken word."""

from amaranth import Signal

from multitree.nic.control.checker import Checker
from multitree.nic.driver.config import Config
from tests.formal.bench import holds
from tests.formal.control.words import illegal_entry, illegal_row, table

_SIZES = (
    {"num_ports": 1, "table_depth": 2, "num_flows": 1},
    {"num_ports": 4, "table_depth": 3, "num_flows": 2},
)

ROW_CYCLES, FLOW_CYCLES = 5, 8
WAVES_CYCLES = 38
"""Cycles searched with stages and strides: three rows and two flows take 35."""


def _checker(bench, num_ports, table_depth, num_flows, wave_width=0):
    m = bench.m
    sizes = {"num_ports": num_ports, "table_depth": table_depth, "num_flows": num_flows}
    config = Config(**sizes, address_width=4, wave_width=wave_width)
    # Any CRC may come out, right or wrong: what passes has to be legal in either case.
    bench.replace("multitree.nic.control.checker.crc32_step", lambda state, word, sums: state)
    m.submodules.block = block = Checker(config)
    m.d.comb += [
        block.start.eq(bench.free("start")),
        block.num_rows.eq(bench.constant("num_rows", range(table_depth + 2))),
        block.num_flows.eq(bench.constant("num_flows", range(num_flows + 2))),
        block.window_flits.eq(bench.constant("window_flits", 4)),
        block.crc.eq(bench.constant("crc", 32)),
    ]
    return block


@holds(
    "checker.waves",
    *tuple(sizes | {"wave_width": width} for width, sizes in enumerate(_SIZES, start=1)),
    depth=WAVES_CYCLES,
    quick_depth=24,
    claim="the same with stages and strides; no row in use has a higher stage than is reported",
)
@holds(
    "checker.passes",
    *_SIZES,
    quick_depth=24,
    claim="a table passes only if every row and flow in use is legal and as written",
)
def passes(bench, *, num_ports, table_depth, num_flows, wave_width=0):
    """A table passes only if every row and flow in use is legal and whole."""
    m = bench.m
    block = _checker(bench, num_ports, table_depth, num_flows, wave_width)
    addresses = {"row_address": block.row_address, "flow_address": block.flow_address}
    words = table(bench, **addresses, wave_width=wave_width)
    m.d.comb += [block.row.eq(words.shown_row), block.entry.eq(words.shown_entry)]
    row_intact, entry_intact = bench.free("row_intact"), bench.free("entry_intact")
    m.d.comb += [block.row_intact.eq(row_intact), block.entry_intact.eq(entry_intact)]
    # Whether the two words that are looked at are as written: not so in any cycle is not so.
    whole = bench.constant("whole", 2)
    at_row = bench.past(bench.past(block.row_address == words.index))
    at_flow = bench.past(bench.past(block.flow_address == words.row.flow))
    bench.assume(~at_row | (row_intact == whole[0]))
    bench.assume(~at_flow | (entry_intact == whole[1]))
    ends = bench.past(block.busy) & ~block.busy
    passed = ends & (block.code == 0)
    bad_row = illegal_row(words.row, num_ports, block.num_flows, wave_width) | ~whole[0]
    bad_flow = illegal_entry(words.entry, num_ports, block.window_flits, wave_width) | ~whole[1]
    bench.check(~(passed & bad_row) | (words.index >= block.num_rows))
    bench.check(~(passed & bad_flow) | (words.row.flow >= block.num_flows))
    bench.check(~passed | ((block.num_rows <= table_depth) & (block.num_flows <= num_flows)))
    bench.cover("passed", passed & (block.num_rows == 2) & (block.num_flows == 1))
    if wave_width:
        in_use = words.index < block.num_rows
        bench.check(~(passed & in_use) | (block.last_stage >= words.row.stage))
        alone = passed & (block.num_rows == 1) & (words.index == 0)
        bench.check(~alone | (block.last_stage == words.row.stage))
        bench.cover("staged", alone & (block.last_stage == 1))


@holds("checker.progress", *_SIZES, quick_depth=24)
def progress(bench, *, num_ports, table_depth, num_flows):
    """A check is over after 5 cycles per row, 8 per flow and 4 more at most."""
    m = bench.m
    block = _checker(bench, num_ports, table_depth, num_flows)
    m.d.comb += [
        block.row_intact.eq(bench.free("row_intact")),
        block.entry_intact.eq(bench.free("entry_intact")),
        block.row.as_value().eq(bench.free("row", len(block.row.as_value()))),
        block.entry.as_value().eq(bench.free("entry", len(block.entry.as_value()))),
    ]
    bench.assume(~(block.start & block.busy))
    bound = ROW_CYCLES * table_depth + FLOW_CYCLES * num_flows + 4
    busy = Signal(range(bound + 2))
    m.d.sync += busy.eq(busy + 1)
    with m.If(~block.busy):
        m.d.sync += busy.eq(0)
    bench.check(busy <= bound)
    bench.cover("long", busy == ROW_CYCLES + FLOW_CYCLES + 2)
