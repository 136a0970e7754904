"""Forests: waves over packed trees, exact, without contention, suited to a size."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitree import ScheduleError, Topology, build, mesh, parse_topology, torus, verify
from multitree.topology.collectives import Op
from multitree.topology.lowering import unrolled
from multitree.topology.networks.bounds import link_occupancy
from multitree.topology.networks.cost_model import CostModel, usual_cost_model
from multitree.topology.packing import forest
from multitree.topology.packing.forest import MOST_WAVES, build_forest
from multitree.topology.packing.modulo_schedule import modulo_schedule
from multitree.topology.packing.tree_packing import pack_trees, rerooted
from tests.topology.graphs import copy_of, over, random_topology, rows_of, star
from tests.topology.oracles import rooted, sums


def paced(topology, num_flits, **changes):
    """A forest for a size."""
    cost_model = usual_cost_model(topology)._replace(num_flits=num_flits, **changes)
    return build_forest(topology, cost_model=cost_model)


DIRECT = ("mesh:3x4", "torus:4x4", "ring:5", "hypercube:3", "full:5")
SWITCHED = ("fat_tree:2x3", "bigraph:2x4", "kary_tree:2x3x2", "dragonfly:2x1x1", "dgx2")
SIZES = [*product(DIRECT, (1, 100, 4096, 65536, 1 << 26)), *product(SWITCHED, (1, 4096, 1 << 26))]


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "num_flits"), SIZES)
def test_no_link_has_two_messages_at_once_in_any_waves(spec, num_flits):
    parts = {"part_flits": None} if spec in SWITCHED else {}
    schedule = paced(parse_topology(spec), num_flits, **parts)
    report = verify(schedule)
    assert report.contention_free and report.causal and report.max_link_load == 1
    assert 1 <= schedule.num_waves <= MOST_WAVES
    assert sums(schedule)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([2, 50, 5000]))
def test_random_graphs_are_summed_without_contention(seed, num_flits):
    schedule = paced(random_topology(seed, most_ranks=10), num_flits)
    assert verify(schedule).contention_free
    assert verify(unrolled(schedule)).contention_free
    assert sums(schedule, seed=seed)


def mesh_with_columns_of(gbytes_per_s):
    """A mesh whose links along its columns have another speed."""
    whole = mesh(4, 4)
    return copy_of(whole, np.where(np.ptp(whole.links, axis=1) > 1, gbytes_per_s, 16.0))


def test_slow_links_carry_fewer_trees_and_are_not_taken_twice():
    slow = mesh_with_columns_of(4.0)
    schedule = paced(slow, 65536)
    assert verify(schedule).contention_free
    used = np.bincount(schedule.route_links, minlength=slow.num_links)
    speeds = slow.bandwidth_gbytes_per_s
    assert used[speeds == 4].max() < used[speeds == 16].max()


@pytest.mark.slow
@over("mesh:8x8 fat_tree:2x3")
def test_large_buffers_have_more_and_longer_chunks(topology):
    chunks, waves = [], []
    for num_flits in (1 << 14, 1 << 16, 1 << 18, 1 << 20):
        schedule = paced(topology, num_flits)
        waves.append(schedule.num_waves)
        chunks.append(num_flits / schedule.num_waves / schedule.num_flows)
    assert waves == sorted(waves) and chunks == sorted(chunks)


@pytest.mark.parametrize("num_flits", [1 << 16, 1 << 18])
@pytest.mark.parametrize(("spec", "num_trees", "period"), [("mesh:2", 1, 1), ("full:4", 4, 2)])
def test_chunks_are_as_long_as_makes_heads_and_the_last_wave_cost_alike(
    spec, num_trees, period, num_flits
):
    """Where a wave ends a slot behind its period, or with it, which counts as one."""
    schedule = paced(parse_topology(spec), num_flits)
    assert (schedule.num_flows, schedule.period) == (num_trees, period)
    most = num_flits / num_trees
    message_cycles = usual_cost_model(schedule.topology).message_cycles
    assert schedule.num_waves == int(most / np.sqrt(most * period * message_cycles))


def test_longer_ways_make_longer_steps_or_more_of_them():
    """The time that a wave has for a hop is at least what a hop takes."""
    topology = mesh(4, 4)
    cost_model = usual_cost_model(topology)
    for way in (10, 100, 1000, 10_000):
        latency_cycles = np.full(topology.num_links, float(way))
        schedule = paced(topology, cost_model.num_flits, latency_cycles=latency_cycles)
        came = {}
        for step, _, flow, src, dst in rows_of(schedule)[schedule.op == Op.REDUCE].tolist():
            if (flow, src) in came:
                chunk = cost_model.num_flits / schedule.num_waves / schedule.num_flows
                cycles = (step - came[flow, src]) * (chunk + cost_model.message_cycles)
                assert cycles >= way + cost_model.part_flits
            came[flow, dst] = max(step, came.get((flow, dst), 0))


@pytest.mark.slow
@pytest.mark.parametrize("num_flits", [1 << 10, 1 << 12, 1 << 16])
@pytest.mark.parametrize("slow_gbytes_per_s", [16.0, 8.0, 4.0])
def test_a_hop_takes_its_time_from_the_first_slot_on_of_slow_links_too(
    slow_gbytes_per_s, num_flits
):
    """What depends on a message is the fewest slots behind it that its way takes, and no fewer."""
    topology = mesh_with_columns_of(slow_gbytes_per_s)
    slots = link_occupancy(topology)
    cost_model, schedule = usual_cost_model(topology), paced(topology, num_flits)
    link, behind = schedule.route_links, {}
    chunk = num_flits / schedule.num_waves / schedule.num_flows
    slot = ((chunk + cost_model.message_cycles) * cost_model.cycles_per_flit / slots)[link]
    part = min(cost_model.part_flits, chunk) + 1
    way = cost_model.latency_cycles + part * cost_model.cycles_per_flit
    for op in (Op.REDUCE, Op.GATHER):
        rows = np.flatnonzero(schedule.op == op)
        came, goes = (schedule.flow[rows] * 16 + end[rows] for end in (schedule.dst, schedule.src))
        for before, after in np.argwhere(came[:, None] == goes):
            gap = schedule.step[rows[after]] - schedule.step[rows[before]]
            held = slots[link[rows[before]]]
            behind[held] = min(gap, behind.get(held, gap))
    for held, gap in behind.items():
        assert gap == max(np.ceil(1.3 * way[slots == held].max() / slot.max()), held)


def test_whole_chunks_get_more_time_than_parts_of_them():
    topology = mesh(4, 4)
    parts, whole = (paced(topology, 1 << 16, part_flits=part) for part in (16, None))
    assert whole.num_steps > parts.num_steps


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("slow_gbytes_per_s", [16.0, 8.0, 16 / 3, 4.0])
def test_over_switches_what_adds_to_a_sum_goes_one_by_one(slow_gbytes_per_s):
    """A rank with many ports would else have to stage what comes first."""
    whole = parse_topology("dgx2")
    slow = np.isin(whole.links, [16, 17, 22, 23]).any(axis=1)
    topology = copy_of(whole, np.where(slow, slow_gbytes_per_s, 16.0))
    schedule = paced(topology, 1 << 22, part_flits=None)
    slots = link_occupancy(topology)[schedule.route_links]
    held = np.maximum.reduceat(slots, schedule.route_offsets[:-1])
    busy = [
        (schedule.flow[row], schedule.dst[row], schedule.step[row] + slot)
        for row in np.flatnonzero(schedule.op == Op.REDUCE)
        for slot in range(held[row])
    ]
    assert len(set(busy)) == len(busy)


@pytest.mark.parametrize("gbytes_per_s", [4.0, 8.0, 16.0])
def test_links_that_are_all_slower_make_waves_no_fewer(gbytes_per_s):
    schedule = paced(star(6, gbytes_per_s), 1 << 22, part_flits=None)
    assert schedule.num_waves > 50


def test_links_that_no_tree_takes_may_have_any_speed():
    links = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2)]
    one_way = Topology("one way", 3, 0, links, 16.0, 150.0)
    slow = usual_cost_model(one_way).cycles_per_flit * [1, 1, 1, 1, 50]
    for num_flits in (1 << 10, 1 << 16):
        assert (
            paced(one_way, num_flits, cycles_per_flit=slow).hash == paced(one_way, num_flits).hash
        )


def test_siblings_of_a_step_are_added_by_their_sources():
    schedule = paced(torus(4, 4), 1 << 16)
    rows = rows_of(schedule, "step", "flow", "dst", "order", "src")[schedule.op == Op.REDUCE]
    for (*sum_of, _, src), (*other, _, following) in pairwise(sorted(rows.tolist())):
        assert src < following or sum_of != other


@pytest.mark.parametrize("root", [0, 5, 15])
def test_all_trees_have_their_root_where_it_is_asked_for(root):
    packing = rerooted(pack_trees(mesh(4, 4)), root)
    assert (packing.roots == root).all()
    again = rerooted(packing, int(pack_trees(mesh(4, 4)).roots[0]))
    assert (again.links[0] == pack_trees(mesh(4, 4)).links[0]).all()
    rooted(mesh(4, 4), "forest", root)


def test_a_forest_says_why_there_is_none():
    one_way = Topology("one way", 3, 1, [(0, 3), (3, 1), (1, 3), (3, 2), (2, 3), (3, 0)], 16.0, 1.0)
    assert paced(one_way, 64).num_flows
    one_way = Topology("one way", 2, 1, [(0, 2), (2, 1), (1, 0)], 16.0, 1.0)
    with pytest.raises(ScheduleError, match="'one way' must be joined by routes over links with"):
        build_forest(one_way)
    with pytest.raises(ScheduleError, match=r"forest must have one root, not \[0, 2\]"):
        build_forest(mesh(2, 2), roots=[0, 2])
    with pytest.raises(ScheduleError, match="all_gather must have one flow rooted at each rank"):
        build(mesh(2, 2), "forest", "all_gather")


@over("mesh:3x3 torus:3x3")
def test_where_waves_are_too_few_several_are_written_out_in_one(topology, monkeypatch):
    """No other trees, slots or chunks than of the same forest with more waves distinguished."""
    num_flits = 1 << 18
    monkeypatch.setattr(forest, "MOST_WAVES", 10_000)
    apart = paced(topology, num_flits)
    monkeypatch.setattr(forest, "MOST_WAVES", 8)
    together = paced(topology, num_flits)
    copies = together.num_flows // apart.num_flows
    assert copies > 1 and together.num_waves == 8 < apart.num_waves
    one = replace(apart, num_waves=copies)
    expected = replace(unrolled(one), num_waves=8, period=copies * apart.period)
    assert together.hash == expected.hash
    report = verify(together)
    assert report.contention_free and report.max_link_load == 1
    assert sums(together, 999)


def test_more_flows_are_taken_only_where_they_save_cycles():
    topology = mesh(3, 3)
    few, many = (paced(topology, num_flits) for num_flits in (1 << 14, 1 << 26))
    assert few.num_waves < MOST_WAVES and few.num_flows == many.num_flows


def test_each_timetable_of_a_forest_is_made_once(monkeypatch):
    """Search for other trees, or again for the same ones, took most of a minute for mesh 16x16."""
    made = []

    def timetable_of(packing, slots, **routes):
        made.append((packing.num_trees, np.unique(slots).tolist()))
        return modulo_schedule(packing, slots, **routes)

    monkeypatch.setattr(forest, "modulo_schedule", timetable_of)
    monkeypatch.setattr(forest, "MOST_WAVES", 8)
    schedule = paced(mesh(3, 3), 1 << 18, part_flits=None)
    (num_trees,) = {trees for trees, _ in made}
    assert schedule.num_flows > num_trees
    assert len(made) == len({tuple(slots) for _, slots in made}) <= forest.MOST_HOP_SLOTS


def test_the_same_pace_gives_the_same_schedule():
    first, second = (paced(mesh(4, 4), 1 << 16) for _ in range(2))
    assert first.hash == second.hash


def test_the_usual_pace_is_that_of_a_megabyte():
    topology = mesh(2, 2)
    cost_model = usual_cost_model(topology)
    assert isinstance(cost_model, CostModel) and cost_model.num_flits * 16 == 1 << 20
    assert build(topology, "forest").hash == build(topology, "forest", cost_model=cost_model).hash
