"""Tests of the table compiler: one rank's rows and flow memory out of a schedule."""

from dataclasses import replace

import numpy as np
import pytest

from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.driver.table import compile_table
from multitree.topology.algorithms.build import build
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.families.direct import hypercube, mesh, ring, torus
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

CONFIG = Config()
NONE = [NO_PORT]
# Ranks 0 and 1 are above 2 and 3; a rank's port 0 leads down or up, its port 1 sideways.
SQUARE = torus(2, 2)
TREES = [
    # step, op, flow, src, dst: flow 0 is rooted at rank 0, flow 1 at rank 3
    (0, 0, 0, 3, 1),
    (0, 0, 1, 0, 2),
    (1, 0, 0, 1, 0),
    (1, 0, 0, 2, 0),
    (1, 0, 1, 1, 3),
    (1, 0, 1, 2, 3),
    (2, 1, 0, 0, 1),
    (2, 1, 0, 0, 2),
    (2, 1, 1, 3, 1),
    (2, 1, 1, 3, 2),
    (3, 1, 0, 1, 3),
    (3, 1, 1, 2, 0),
]


def schedule_of(rows, topology=SQUARE, offsets=(0, 1, 3), **given):
    names = {"algorithm": "by hand", "collective": "all_reduce"}
    return Schedule.from_rows(topology, **names, flow_offsets=offsets, rows=rows, **given)


def rows_of(table):
    columns = (table.step, table.op, table.flow, table.port)
    return np.stack(columns, axis=1).tolist()


def test_the_tables_of_a_2x2_torus_are_those_worked_out_by_hand():
    schedule = schedule_of(TREES)
    root, inner = (compile_table(schedule, rank, 10, CONFIG) for rank in (0, 2))
    assert rows_of(root) == [[0, 0, 1, 0], [2, 1, 0, 1], [2, 1, 0, 0]]
    assert root.parent.tolist() == [NO_PORT, 0]
    assert [row[:3] for row in root.children.tolist()] == [[0, 1, NO_PORT], 3 * NONE]
    assert rows_of(inner) == [[1, 0, 0, 0], [1, 0, 1, 1], [3, 1, 1, 0]]
    assert inner.parent.tolist() == [0, 1]
    assert inner.children.tolist() == [8 * NONE, [0, *7 * NONE]]
    for table in (root, inner):
        assert (table.base.tolist(), table.size.tolist()) == ([0, 3], [3, 7])
        assert not table.stage.any() and not table.stride.any()
    assert [t.num_arrivals for t in (root, inner)] == [3, 3]
    assert (root.num_rows, root.num_flows, root.schedule_hash) == (3, 2, schedule.hash)


def test_children_come_in_the_order_of_summation_an_earlier_step_before_a_lower_order():
    schedule = schedule_of(TREES)
    siblings = (schedule.dst == 0) & (schedule.op == Op.REDUCE)
    assert schedule.src[siblings].tolist() == [1, 2]
    for order, ports in (((0, 1), [1, 0]), ((1, 0), [0, 1])):
        changed = schedule.order.copy()
        changed[siblings] = order
        table = compile_table(replace(schedule, order=changed), 0, 10, CONFIG)
        assert table.children[0, :2].tolist() == ports
    early = [(0, *row[1:]) if row == (1, 0, 0, 2, 0) else row for row in TREES]
    schedule = schedule_of(early)
    changed = np.where(schedule.step == 0, 3, 0).astype(np.int32)
    table = compile_table(replace(schedule, order=changed), 0, 10, CONFIG)
    assert table.children[0, :2].tolist() == [0, 1]


@pytest.mark.parametrize(
    "topology", [ring(5), torus(4, 2), mesh(3, 2), hypercube(3)], ids=lambda t: t.name
)
def test_the_tables_together_are_the_schedule(topology):
    schedule = build(topology, "multitree")
    sent, came = set(), set()
    for rank in range(topology.num_ranks):
        table = compile_table(schedule, rank, 100, CONFIG)
        peer = topology.links[topology.ports(rank), 1]
        assert (np.diff(table.step) >= 0).all()
        for step, op, flow, port in rows_of(table):
            sent.add((op, flow, rank, int(peer[port]), step))
        for flow in range(table.num_flows):
            for op, ports in ((0, table.children[flow]), (1, [table.parent[flow]])):
                came |= {(op, flow, int(peer[p]), rank) for p in ports if p != NO_PORT}
        assert table.base.tolist() == schedule.chunks(100)[:-1].tolist()
        assert (table.base + table.size).tolist() == schedule.chunks(100)[1:].tolist()
    rows = (schedule.op, schedule.flow, schedule.src, schedule.dst, schedule.step)
    assert sent == set(zip(*(column.tolist() for column in rows), strict=True))
    assert came == {row[:4] for row in sent}


def test_in_lockstep_every_step_has_a_row_and_a_nop_exactly_where_nothing_is_sent():
    schedule = schedule_of(TREES)
    for rank in range(4):
        plain = compile_table(schedule, rank, 10, CONFIG)
        table = compile_table(schedule, rank, 10, CONFIG, lockstep=True)
        nops = table.op == Op.NOP
        assert [row for row in rows_of(table) if row[1] != Op.NOP] == rows_of(plain)
        assert table.step[nops].tolist() == [s for s in range(4) if s not in plain.step]
        assert (np.diff(table.step) >= 0).all()


@pytest.mark.parametrize("period", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("num_flits", [30, 31])
def test_the_rows_of_a_periodic_table_are_at_their_step_in_the_period_and_their_waves_apart(
    period, num_flits
):
    """Run by run, each row for the wave it is at, they are the rows of all waves in order."""
    once = build(torus(4, 2), "multitree") if num_flits == 30 else schedule_of(TREES)
    schedule = replace(once, num_waves=5, period=period)
    config = replace(CONFIG, wave_width=4)
    whole = 6 if num_flits == 30 else 7
    for rank in range(once.topology.num_ranks):
        plain = compile_table(once, rank, whole, CONFIG)
        table = compile_table(schedule, rank, num_flits, config)
        stages = table.stage.max() + 1
        ran = [
            (wave, row[0] + period * run, *row[1:])
            for run in range(5 + stages - 1)
            for row, stage in zip(rows_of(table), table.stage.tolist(), strict=True)
            if 0 <= (wave := run - stage) < 5
        ]
        meant = [
            (wave, row[0] + period * wave, *row[1:]) for wave in range(5) for row in rows_of(plain)
        ]
        assert sorted(ran) == sorted(meant)
        steps = [step for _, step, *_ in ran]
        assert steps == sorted(steps) and (table.step < period).all()
        assert table.stride.tolist() == [whole] * once.num_flows and table.num_waves == 5
        assert table.base.tolist() == plain.base.tolist()
        assert table.size.tolist() == plain.size.tolist()
        assert table.end_flits == 5 * whole and plain.end_flits == whole


def test_waves_or_stages_that_no_number_is_left_for_are_an_error_that_says_so():
    schedule = replace(schedule_of(TREES), num_waves=4, period=1)
    for change, width, text in (
        ({"num_waves": 5}, 2, "waves must be at most 4, not 5"),
        ({}, 1, "waves must be at most 2, not 4"),
        ({"num_waves": 2}, 1, "periods of a wave must be at most 2, not 4"),
    ):
        with pytest.raises(ScheduleError, match=f"Rank 0: {text}"):
            compile_table(replace(schedule, **change), 0, 10, replace(CONFIG, wave_width=width))
    compile_table(schedule, 0, 10, replace(CONFIG, wave_width=2))
    small = replace(CONFIG, address_width=4, wave_width=2)
    with pytest.raises(ScheduleError, match="flits of the buffer must be at most 15, not 16"):
        compile_table(schedule, 0, 13, small)
    compile_table(schedule, 0, 12, small)


def test_waves_in_lockstep_are_an_error():
    schedule = replace(schedule_of(TREES), num_waves=2, period=4)
    config = replace(CONFIG, wave_width=2)
    compile_table(schedule, 0, 10, config)
    with pytest.raises(ScheduleError, match="Waves must be one in lockstep, not 2"):
        compile_table(schedule, 0, 10, config, lockstep=True)


def test_a_buffer_of_fewer_flits_than_flows_has_empty_chunks():
    schedule = build(torus(4, 4), "multitree")
    table = compile_table(schedule, 3, 5, CONFIG)
    assert sorted(table.size.tolist()) == [0] * 11 + [1] * 5
    assert compile_table(schedule, 3, 0, CONFIG).size.tolist() == [0] * 16


def test_a_table_cannot_be_changed():
    table = compile_table(schedule_of(TREES), 0, 10, CONFIG)
    for name in ("op", "flow", "port", "step", "base", "size", "parent", "children"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(table, name)[...] = 0


@pytest.mark.parametrize(
    ("config", "num_flits", "text"),
    [
        (Config(num_flows=1), 10, "Rank 0: flows must be at most 1, not 2"),
        (Config(table_depth=2), 10, "Rank 0: table rows must be at most 2, not 3"),
        (Config(address_width=4), 16, "Rank 0: flits of the buffer must be at most 15, not 16"),
    ],
)
def test_what_does_not_fit_the_interface_is_an_error_that_says_so(config, num_flits, text):
    schedule = schedule_of(TREES)
    with pytest.raises(ScheduleError, match=text):
        compile_table(schedule, 0, num_flits, config)
    # One less of each fits.
    limits = {"num_flows": 2, "table_depth": 3}
    compile_table(schedule, 0, 15, replace(config, **limits))


def test_more_links_than_ports_a_rank_out_of_range_and_too_many_steps_are_errors():
    with pytest.raises(TopologyError, match="rank 0 has 2 links, the interface has 1 ports"):
        compile_table(schedule_of(TREES), 0, 10, Config(num_ports=1))
    for rank in (-1, 4):
        with pytest.raises(ScheduleError, match=f"Rank must be in 0..3, not {rank}"):
            compile_table(schedule_of(TREES), rank, 10, CONFIG)
    far = schedule_of([*TREES[:-1], (1 << 16, *TREES[-1][1:])])
    with pytest.raises(ScheduleError, match="steps must be at most 65536, not 65537"):
        compile_table(far, 0, 10, CONFIG)
    compile_table(schedule_of([*TREES[:-1], (65535, *TREES[-1][1:])]), 0, 10, CONFIG)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_link_without_a_reverse_is_an_error_at_both_of_its_ends(rank):
    """Rank 0 sends over two parallel links, and only the first has a reverse."""
    topology = Topology("lame", 2, 0, [[0, 1], [0, 1], [1, 0]], 16.0, 150.0)
    rows = [(0, 0, 0, 0, 1), (1, 1, 0, 1, 0)]
    schedule = schedule_of(rows, topology, [0, 1], links=[1, 2])
    with pytest.raises(TopologyError, match=r"lame: link 1 of rank . has no reverse link"):
        compile_table(schedule, rank, 10, CONFIG)


def test_a_route_of_two_hops_is_an_error():
    line = mesh(3)
    schedule = schedule_of([(0, 0, 0, 0, 1), (1, 0, 0, 1, 2)], line, [0, 1])
    links = {tuple(ends): link for link, ends in enumerate(line.links.tolist())}
    route = [links[0, 1], links[1, 2], links[1, 2]]
    detour = replace(schedule, route_offsets=[0, 2, 3], route_links=route, route_classes=[0, 0, 0])
    with pytest.raises(ScheduleError, match="Row 0: a route must be one link, not 2"):
        compile_table(detour, 0, 10, CONFIG)
