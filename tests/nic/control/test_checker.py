"""Tests of the checker: only the very table that was meant is accepted."""

import zlib
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
from amaranth import Elaboratable, Module

from multitree.nic.control.checker import Checker
from multitree.nic.control.memories import FlowMemory, TableMemory
from multitree.nic.driver.faults import FaultCode
from multitree.nic.layouts import FLOW_ENTRY, ROW
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL, entry, load, row
from tests.nic.receive.shared_receivers import flow_entry
from tests.nic.send.test_fetcher import random_table

DEPTH, FLOWS, WINDOW = SMALL.table_depth, SMALL.num_flows, 1000
FINE = (0, None, None)
MANY_CHILDREN = replace(SMALL, flit_bytes=16, num_classes=1, max_children=40)


class Bench(Elaboratable):
    """A checker with its memories."""

    def __init__(self, config=SMALL):
        self.checker = Checker(config)
        self.table = TableMemory(config)
        self.flows = FlowMemory(config, num_clients=1)

    def elaborate(self, platform):
        m = Module()
        checker, table, flows = self.checker, self.table, self.flows
        m.submodules += [checker, table, flows]
        m.d.comb += [
            table.shadow_address.eq(checker.row_address),
            checker.row.eq(table.shadow_row),
            checker.row_intact.eq(table.shadow_intact),
            flows.shadow_address.eq(checker.flow_address),
            checker.entry.eq(flows.shadow_entry),
            checker.entry_intact.eq(flows.shadow_intact),
        ]
        return m


def content(rows, flows):
    """The bytes of a table: words in order, least significant byte first."""
    words = [row(**fields).as_value().value.to_bytes(8, "little") for fields in rows]
    words += [entry(**fields).as_value().value.to_bytes(20, "little") for fields in flows]
    return b"".join(words)


@simulation_of(cache(Bench))
async def simulate(ctx, bench, *tables, flip=None, **settings):
    """What a checker finds in one table after the other: code, row or flow, index; and counts.

    A `flip` is a cycle, a memory by name, an entry and a bit of it.
    """
    checker = bench.checker
    seen = SimpleNamespace(found=[], cycles=[], num_arrivals=[], last_stages=[])
    for rows, flows in tables:
        await load(ctx, bench.table, ROW, [row(**fields) for fields in rows[:DEPTH]])
        await load(ctx, bench.flows, FLOW_ENTRY, [entry(**fields) for fields in flows[:FLOWS]])
        put(ctx, bench.table, bank=1)
        put(ctx, bench.flows, bank=1)
        sizes = {"num_rows": len(rows), "num_flows": len(flows), "window_flits": WINDOW}
        put(ctx, checker, start=1, **sizes | {"crc": zlib.crc32(content(rows, flows))})
        put(ctx, checker, **settings)
        await ctx.tick()
        ctx.set(checker.start, 0)
        cycles = 0
        while ctx.get(checker.busy):
            if flip is not None and cycles == flip[0]:
                stored = getattr(bench, flip[1]).content.banks[0][flip[2]]
                ctx.set(stored, ctx.get(stored) ^ 1 << flip[3])
            await ctx.tick()
            cycles += 1
            assert cycles < 1000
        await ctx.tick().repeat(3)
        code, of_flow, index = (
            ctx.get(output) for output in (checker.code, checker.of_flow, checker.index)
        )
        place = ("flow" if of_flow else "row", index) if code else (None, None)
        seen.found.append((code, *place))
        seen.cycles.append(cycles)
        seen.num_arrivals.append(ctx.get(checker.num_arrivals))
        seen.last_stages.append(ctx.get(checker.last_stage))
    return seen


def test_legal_tables_pass_and_the_messages_that_will_come_in_are_counted():
    tables = [random_table(seeded(seed), nops=seed == 2) for seed in range(5)]
    seen = simulate(*tables, ([], []), ([], tables[0][1]))
    assert seen.found == [FINE] * 7
    counts = [sum(len(f["children"]) + ("parent" in f) for f in flows) for _, flows in tables]
    assert seen.num_arrivals == [*counts, 0, counts[0]]


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("bit", range(16))
def test_every_bit_of_a_step_counts_in_the_order_of_rows(bit):
    rows, flows = random_table(seeded(bit))
    rows = [fields | {"step": 1 << bit} for fields in rows]
    ascending = [*rows[:-1], rows[-1] | {"step": 0xFFFF}]
    falling = [*rows[:-1], rows[-1] | {"step": (1 << bit) - 1}]
    found = simulate((ascending, flows), (falling, flows)).found
    assert found == [FINE, (FaultCode.ROW_ILLEGAL, "row", len(rows) - 1)]


def test_the_highest_stage_of_a_tables_rows_is_reported_and_none_of_the_table_before():
    rng = seeded(0)
    tables = [random_table(rng, nops=k == 1) for k in range(6)]
    highest = [15, 3, 8, 0, 1, 14]
    for (rows, flows), most in zip(tables, highest, strict=True):
        for fields in rows:
            fields["stage"] = rng.randrange(most + 1)
        rng.choice(rows)["stage"] = most
        # A flow's words look like a row's of other stages.
        flows[0] |= {"size": 0xF, "base": 0x1F}
    seen = simulate(*tables, ([], [{}]), config=replace(SMALL, wave_width=4))
    assert seen.found == [FINE] * 7
    assert seen.last_stages == [*highest, 0]


@pytest.mark.slow
@pytest.mark.parametrize("position", range(DEPTH))
def test_an_illegal_row_is_found_and_named(position):
    rng = seeded(position)
    rows, flows = random_table(rng)
    wrong = rng.choice([{"op": 3}, {"port": SMALL.num_ports}, {"flow": len(flows)}, {"stage": 1}])
    code = FaultCode.ITERATIONS if "stage" in wrong else FaultCode.ROW_ILLEGAL
    broken = [*rows[:position], rows[position] | wrong, *rows[position + 1 :]]
    assert simulate((broken, flows), (rows, flows)).found == [(code, "row", position), FINE]


def test_a_row_of_an_earlier_step_than_the_row_before_it_is_illegal_also_after_another_table():
    later, earlier = [{"step": 7}], [{"step": 3}, {"step": 2}]
    seen = simulate((later, [{}]), (earlier, [{}]), (later, [{}]))
    assert seen.found == [FINE, (FaultCode.ROW_ILLEGAL, "row", 1), FINE]


@pytest.mark.parametrize("position", range(FLOWS))
def test_an_illegal_flow_is_found_and_named(position):
    rng = seeded(position)
    rows, flows = random_table(rng)
    wrong = rng.choice([{"stride": 1}, {"base": WINDOW, "size": 1}, {"parent": SMALL.num_ports}])
    broken = [flow | (wrong if k == position else {}) for k, flow in enumerate(flows)]
    assert simulate((rows, broken)).found == [(FaultCode.FLOW_ILLEGAL, "flow", position)]


@pytest.mark.parametrize("extra", [1, 1 << 16, 1 << 17, 1 << 31])
def test_more_rows_or_flows_than_there_is_memory_are_refused(extra):
    table = random_table(seeded(0))
    found = simulate(table, num_rows=DEPTH + extra).found
    assert found == [(FaultCode.ROW_ILLEGAL, "row", 0)]
    found = simulate(([], []), num_flows=FLOWS + extra).found
    assert found == [(FaultCode.FLOW_ILLEGAL, "flow", 0)]


@pytest.mark.slow
def test_another_table_than_the_one_meant_is_refused_however_legal_it_is():
    rows, flows = random_table(seeded(1))
    crc = zlib.crc32(content(rows, flows))
    swapped = [*rows[:4], rows[4] | {"port": (rows[4]["port"] + 1) % 3}, *rows[5:]]
    moved = [flows[0] | {"size": 2}, *flows[1:]]
    wrong = (FaultCode.TABLE_CRC, "row", 0xFFFF)
    tables = [(rows, flows), (swapped, flows), (rows, moved), (rows[:-1], flows), (rows, flows)]
    assert simulate(*tables, crc=crc).found == [FINE, wrong, wrong, wrong, FINE]
    for bit in (0, 13, 31):
        assert simulate((rows, flows), crc=crc ^ 1 << bit).found == [wrong]


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["table", "flows"])
def test_a_bit_that_flips_while_its_entry_is_read_is_named(memory):
    """Before it is read it counts; after it was read it is not this check's."""
    rng = seeded(memory)
    rows, flows = random_table(rng)
    index = 3
    bits, kind = (66, "row") if memory == "table" else (165, "flow")
    first = 5 * index + 1 if memory == "table" else 5 * DEPTH + 1 + 8 * index + 1
    length = 2 if memory == "table" else 5
    for cycle in range(first - 3, first + length + 2):
        seen = simulate((rows, flows), flip=(cycle, memory, index, rng.randrange(bits)))
        # A word that changes in the last cycle of its entry is read too late.
        late = cycle >= first + length - 1
        assert seen.found == [FINE if late else (FaultCode.TABLE_PARITY, kind, index)]


def test_a_row_takes_five_cycles_and_a_flow_eight():
    rows, flows = random_table(seeded(1))
    seen = simulate(([], []), (rows, flows))
    assert seen.cycles == [3, 3 + 5 * DEPTH + 8 * FLOWS]


@simulation_of(lambda: Bench(MANY_CHILDREN))
async def test_sixteen_children_and_more_are_counted_on_shared_links(ctx, bench):
    counts = [15, 16, 31, 32, 40]
    flows = [flow_entry(num_children=count, parent=k % 2) for k, count in enumerate(counts)]
    words = b"".join(flow.as_value().value.to_bytes(20, "little") for flow in flows)
    checker, reported = bench.checker, []
    await load(ctx, bench.flows, FLOW_ENTRY, flows)
    put(ctx, bench.flows, bank=1)
    put(ctx, checker, start=1, num_flows=len(flows), crc=zlib.crc32(words))
    await ctx.tick()
    ctx.set(checker.start, 0)
    while ctx.get(checker.busy):
        await ctx.tick()
    reported.extend(ctx.get(value) for value in (checker.code, checker.num_arrivals))
    assert reported == [0, sum(counts) + 2]
