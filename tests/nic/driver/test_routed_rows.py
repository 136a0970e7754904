"""Tests of tables for shared links: routes, places in sums, slots, words."""

import zlib

import numpy as np
import pytest

from multitree.hw.codes import HOP_WIDTH
from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.driver.registers import ADDRESS, FLOW_WINDOW, ROUTE_WINDOW, TABLE_WINDOW
from multitree.nic.driver.table import compile_table, table_writes
from multitree.nic.layouts import SHARED_FLOW, SHARED_ROW
from multitree.topology.algorithms.build import build
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError
from multitree.topology.families.direct import ring
from multitree.topology.lowering import lowered, through_switches
from multitree.topology.specs import parse_topology
from tests.nic.driver.test_table import schedule_of

CONFIG = Config(num_ports=4, num_classes=2, max_children=8)
NUM_FLITS = 101


def tables_of(spec, algorithm, config=CONFIG):
    schedule = lowered(build(parse_topology(spec), algorithm))
    ranks = range(schedule.topology.num_ranks)
    return schedule, [compile_table(schedule, rank, NUM_FLITS, config) for rank in ranks]


@pytest.fixture(
    scope="module",
    params=[
        ("bigraph:2x4", "halving_doubling"),
        ("fat_tree:3x2", "ring"),
        ("torus:3x3", "double_tree"),
    ],
    ids=lambda case: " ".join(case),
)
def compiled(request):
    return tables_of(*request.param)


def test_following_a_route_port_by_port_leads_to_the_destination(compiled):
    schedule, tables = compiled
    topology = schedule.topology
    for rank, table in enumerate(tables):
        for index, row in enumerate(np.flatnonzero(schedule.src == rank).tolist()):
            at, route = int(table.port[index]), int(table.route[index])
            links = [int(topology.ports(rank)[at])]
            classes = [int(table.vc_class[index])]
            while topology.links[links[-1], 1] != schedule.dst[row]:
                hop, route = route & (1 << HOP_WIDTH) - 1, route >> HOP_WIDTH
                links.append(int(topology.ports(int(topology.links[links[-1], 1]))[hop & 31]))
                classes.append(hop >> 5)
            entries = slice(schedule.route_offsets[row], schedule.route_offsets[row + 1])
            assert links == schedule.route_links[entries].tolist()
            assert classes == schedule.route_classes[entries].tolist()
            assert route == 0


def test_contributions_to_a_sum_have_the_places_0_to_n_in_their_order(compiled):
    schedule, tables = compiled
    came = {}
    for rank, table in enumerate(tables):
        for index, row in enumerate(np.flatnonzero(schedule.src == rank).tolist()):
            if schedule.op[row] == Op.REDUCE:
                key = (int(schedule.flow[row]), int(schedule.dst[row]))
                turn = (int(schedule.step[row]), int(schedule.order[row]))
                came.setdefault(key, []).append((int(table.order[index]), turn))
    for (flow, rank), places in came.items():
        places.sort()
        assert [place for place, _ in places] == [*range(len(places))]
        assert [turn for _, turn in places] == sorted(turn for _, turn in places)
        assert (tables[rank].children[flow] != NO_PORT).sum() == len(places)


def test_slots_lie_behind_the_buffer_one_per_child_and_none_in_another(compiled):
    _, tables = compiled
    for table in tables:
        num_children = (table.children != NO_PORT).sum(axis=1)
        assert table.slots[0] == NUM_FLITS
        assert (np.diff(table.slots) == num_children * table.size).all()


def test_the_words_are_those_of_the_layouts_and_so_is_the_crc(compiled):
    _, tables = compiled
    table = tables[1]
    writes = dict(table_writes(table))
    content = b""
    for row in range(table.num_rows):
        places = [window.base + window.stride * row for window in (TABLE_WINDOW, ROUTE_WINDOW)]
        words = [writes[place + 4 * k] for place in places for k in range(2)]
        value = SHARED_ROW.from_bits(sum(word << 32 * k for k, word in enumerate(words)))
        for name in ("op", "flow", "port", "step", "order", "vc_class", "route"):
            assert value[name] == getattr(table, name)[row]
        assert value.reserved == value.unused == value.stage == 0
        content += b"".join(word.to_bytes(4, "little") for word in words)
    for flow in range(table.num_flows):
        place = FLOW_WINDOW.base + FLOW_WINDOW.stride * flow
        words = [writes[place + 4 * k] for k in range(5)]
        value = SHARED_FLOW.from_bits(sum(word << 32 * k for k, word in enumerate(words)))
        assert (value.base, value.size, value.stride) == (table.base[flow], table.size[flow], 0)
        assert value.staging == table.slots[flow]
        assert value.num_children == (table.children[flow] != NO_PORT).sum()
        assert value.parent == (table.parent[flow] != NO_PORT)
        content += b"".join(word.to_bytes(4, "little") for word in words)
    assert writes[ADDRESS["TABLE_CRC"]] == zlib.crc32(content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 1}, "virtual-channel class must be at most 0, not 1"),
        ({"max_children": 1}, "contributions to one sum must be at most 1"),
        ({"num_classes": 0}, "route must be one link, not"),
    ],
)
def test_what_does_not_fit_the_interface_is_an_error_that_says_so(changes, message):
    config = Config(**{"num_ports": 4, "num_classes": 2, "max_children": 8} | changes)
    with pytest.raises(ScheduleError, match=message):
        tables_of("bigraph:2x4", "halving_doubling", config)


def test_a_chunk_on_shared_links_is_no_longer_than_a_head_can_say():
    schedule = build(parse_topology("fat_tree:2x2"), "multitree")
    config = Config(num_ports=4, num_classes=2, max_children=8, address_width=32)
    most = (1 << 24) - 1
    for longest in (most, most + 1):
        num_flits = schedule.num_flows * longest
        assert np.diff(schedule.chunks(num_flits)).max() == longest
        if longest == most:
            assert compile_table(schedule, 0, num_flits, config).size.max() == most
            continue
        with pytest.raises(ScheduleError, match=f"flits of a chunk must be at most {most}, not"):
            compile_table(schedule, 0, num_flits, config)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_a_broadcast_or_a_reduce_without_its_silent_phase_is_an_error(collective):
    schedule = build(parse_topology("fat_tree:2x2"), "multitree", collective, root=1)
    with pytest.raises(ScheduleError, match=f"A {collective} over shared links must be one with"):
        compile_table(schedule, 0, NUM_FLITS, CONFIG)


def half_around(num_ranks):
    """One contribution to the rank opposite, and the result back."""
    half = num_ranks // 2
    rows = [(op, op, 0, half * (1 - op), half * op) for op in (Op.REDUCE, Op.GATHER)]
    return schedule_of(rows, ring(num_ranks), [0, 1])


def test_a_route_of_eight_links_between_ranks_fits_and_of_nine_is_an_error():
    assert compile_table(through_switches(half_around(16)), 0, NUM_FLITS, CONFIG).route[0] > 0
    with pytest.raises(ScheduleError, match="switches on the route must be at most 9, not 10"):
        compile_table(through_switches(half_around(18)), 0, NUM_FLITS, CONFIG)


def test_a_route_through_a_rank_is_an_error_that_names_it():
    with pytest.raises(ScheduleError, match="route must lead through switches, not rank 1"):
        compile_table(half_around(4), 0, NUM_FLITS, CONFIG)
