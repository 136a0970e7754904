"""Properties of the checker: no table passes with an illegal or broken word."""

from multitree.nic.control.checker import Checker
from multitree.nic.driver.config import Config
from tests.formal.bench import holds, sets
from tests.formal.control.words import illegal_entry, illegal_row, table

_SIZES = sets("num_ports table_depth num_flows", (1, 2, 1), (4, 3, 2))
ROW_CYCLES, FLOW_CYCLES = 5, 8
WAVES_CYCLES = 38
"""Cycles searched with stages and strides: three rows and two flows take 35."""


def _checker(m, num_ports, table_depth, num_flows, wave_width=0):
    sizes = {"num_ports": num_ports, "table_depth": table_depth, "num_flows": num_flows}
    config = Config(**sizes, address_width=4, wave_width=wave_width)
    # Any CRC may come out, right or wrong: what passes has to be legal in either case.
    m.replace("multitree.nic.control.checker.crc32_step", lambda state, word, sums: state)
    m.submodules.block = block = Checker(config)
    m.drive(block.start)
    m.fix(block.window_flits, block.crc)
    m.d.comb += block.num_rows.eq(m.constant("num_rows", range(table_depth + 2)))
    m.d.comb += block.num_flows.eq(m.constant("num_flows", range(num_flows + 2)))
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
def passes(m, *, num_ports, table_depth, num_flows, wave_width=0):
    """A table passes only if every row and flow in use is legal and whole."""
    block = _checker(m, num_ports, table_depth, num_flows, wave_width)
    addresses = {"row_address": block.row_address, "flow_address": block.flow_address}
    words = table(m, **addresses, wave_width=wave_width)
    m.d.comb += [block.row.eq(words.shown_row), block.entry.eq(words.shown_entry)]
    m.drive(block.row_intact, block.entry_intact)
    # Whether the two words that are looked at are as written: not so in any cycle is not so.
    whole = m.constant("whole", 2)
    at_row = m.past(block.row_address == words.index, 2)
    at_flow = m.past(block.flow_address == words.row.flow, 2)
    m.assume(~at_row | (block.row_intact == whole[0]))
    m.assume(~at_flow | (block.entry_intact == whole[1]))
    ends = m.past(block.busy) & ~block.busy
    passed = ends & (block.code == 0)
    bad_row = illegal_row(words.row, num_ports, block.num_flows, wave_width) | ~whole[0]
    bad_flow = illegal_entry(words.entry, num_ports, block.window_flits, wave_width) | ~whole[1]
    m.check(~(passed & bad_row) | (words.index >= block.num_rows))
    m.check(~(passed & bad_flow) | (words.row.flow >= block.num_flows))
    m.check(~passed | ((block.num_rows <= table_depth) & (block.num_flows <= num_flows)))
    m.cover("passed", passed & (block.num_rows == 2) & (block.num_flows == 1))
    if wave_width:
        in_use = words.index < block.num_rows
        m.check(~(passed & in_use) | (block.last_stage >= words.row.stage))
        alone = passed & (block.num_rows == 1) & (words.index == 0)
        m.check(~alone | (block.last_stage == words.row.stage))
        m.cover("staged", alone & (block.last_stage == 1))


@holds("checker.progress", *_SIZES, quick_depth=24)
def progress(m, *, num_ports, table_depth, num_flows):
    """A check is over after 5 cycles per row, 8 per flow and 4 more at most."""
    block = _checker(m, num_ports, table_depth, num_flows)
    m.drive(block.row_intact, block.entry_intact, block.row, block.entry)
    m.assume(~(block.start & block.busy))
    bound = ROW_CYCLES * table_depth + FLOW_CYCLES * num_flows + 4
    busy = m.lasts(block.busy, bound)
    m.cover("long", busy == ROW_CYCLES + FLOW_CYCLES + 2)
