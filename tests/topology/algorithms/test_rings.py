"""Rings run along Hamiltonian cycles, around a tree, or on all switch planes."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from multitree import ScheduleError, Topology, bigraph, build, dgx_a100, ring, torus, verify
from multitree.sim.analytic.engine import analytic
from multitree.topology.algorithms.hamiltonian import hamiltonian_cycle
from multitree.topology.algorithms.rings import (
    TreeWalk,
    build_bidirectional_ring,
    build_plane_rings,
    build_ring,
    ring_order,
)
from tests.topology.graphs import both_ways, one_way_ring, over, planes_of, relabelled, topologies
from tests.topology.oracles import does_its_collective, rooted

WITH_CYCLE = (
    "ring:2 ring:3 ring:8 full:2 full:7 hypercube:1 hypercube:2 hypercube:3 hypercube:7",
    "torus:4x4 torus:3x5 torus:5x3 torus:7 torus:3x3x5 torus:2x2 torus:2x3 torus:9x3",
    "torus:3x2x5 torus:3x5x7 torus:5x5 torus:2x2x2x2 mesh:2 mesh:2x2 mesh:4x4 mesh:3x4",
    "mesh:5x2 mesh:3x3x2 mesh:3x4x5 mesh:2x7",
)
SWITCHED = (
    "fat_tree:4x4 fat_tree:3x5 bigraph:4x8 bigraph:3x6 bigraph:1x2 dgx2 dgx_a100:2 dgx_a100:3x2",
    "dragonfly:4x2x2 dragonfly:2x1x1 kary_tree:2x4 kary_tree:4x2x4 kary_tree:6x2x3 kary_tree:5x1",
)
WITHOUT_CYCLE = "mesh:3 mesh:8 mesh:3x3 mesh:5x3 mesh:3x3x3"


def is_cycle(topology, cycle):
    pairs = set(map(tuple, topology.links.tolist()))
    steps = zip(cycle, cycle[1:] + cycle[:1], strict=True)
    visits_all = sorted(cycle) == list(range(topology.num_ranks))
    return visits_all and cycle[0] == 0 and all(step in pairs for step in steps)


def has_cycle(topology):
    pairs = set(map(tuple, topology.links.tolist()))
    return any(
        all(step in pairs for step in zip((0, *rest), (*rest, 0), strict=True))
        for rest in itertools.permutations(range(1, topology.num_ranks))
    )


def test_a_cycle_goes_over_links_between_ranks_whatever_switches_there_are():
    links = list(nx.DiGraph(nx.cycle_graph(5)).edges)
    links += [(rank, 5) for rank in range(5)] + [(5, rank) for rank in range(5)]
    topology = Topology("around a switch", 5, 1, links, 16.0, 150.0)
    assert hamiltonian_cycle(topology) in ([0, 1, 2, 3, 4], [0, 4, 3, 2, 1])


@over(*WITH_CYCLE)
def test_closed_forms_visit_every_rank_once_over_links(topology):
    assert is_cycle(topology, hamiltonian_cycle(topology))


@over(WITHOUT_CYCLE)
def test_where_there_is_no_cycle_the_error_names_the_topology_and_says_why(topology):
    with pytest.raises(ScheduleError, match=f"'{topology.name}' has no Hamiltonian cycle: .*rank"):
        hamiltonian_cycle(topology)


@over(WITHOUT_CYCLE)
def test_where_there_is_no_cycle_rings_walk_around_a_tree_and_both_ways_in_turns(topology):
    one_way, both = build_ring(topology), build_bidirectional_ring(topology)
    for turns, schedule in ((1, one_way), (2, both)):
        assert verify(schedule).contention_free and does_its_collective(schedule)
        assert schedule.num_steps == 2 * turns * (topology.num_ranks - 1)
        assert 1 < np.diff(schedule.route_offsets).max() <= 3


@given(topologies(both_directions=True))
@settings(deadline=None, print_blob=True, max_examples=150)
def test_a_walk_visits_all_in_at_most_three_links_each_and_no_link_twice(topology):
    walk = TreeWalk(topology)
    assert walk.order[0] == 0 and sorted(walk.order) == list(range(topology.num_ranks))
    src = np.array(walk.order)
    dst = np.roll(src, -1)
    offsets, links, classes = walk.routes(src, dst)
    assert (np.diff(offsets) <= 3).all() and not classes.any()
    assert len(np.unique(links)) == len(links) <= 2 * (topology.num_ranks - 1)
    for first, last, here, there in zip(offsets, offsets[1:], src, dst, strict=False):
        ends = topology.links[links[first:last]]
        assert ends[0, 0] == here and ends[-1, 1] == there
        assert (ends[1:, 0] == ends[:-1, 1]).all()


@given(topologies())
@settings(deadline=None, print_blob=True, max_examples=150)
def test_the_search_finds_a_cycle_exactly_where_there_is_one(topology):
    small = topology.num_ranks <= 7
    try:
        assert is_cycle(topology, hamiltonian_cycle(topology))
    except ScheduleError:
        assert not small or not has_cycle(topology)


@over("mesh:8x8 torus:8x8 torus:5x7 hypercube:6")
def test_the_search_finds_the_cycles_of_families_that_came_from_a_file(topology):
    for seed in range(3):
        copy = relabelled(topology, seed)
        assert is_cycle(copy, hamiltonian_cycle(copy))


@pytest.mark.slow
def test_the_search_knows_when_there_is_none_and_when_it_gave_up():
    petersen = Topology.from_networkx(nx.petersen_graph(), name="petersen")
    with pytest.raises(ScheduleError, match="'petersen' has no Hamiltonian cycle: none was found"):
        hamiltonian_cycle(petersen)
    tutte = Topology.from_networkx(nx.tutte_graph(), name="tutte")
    with pytest.raises(ScheduleError, match=r"'tutte' has no .* that 16 searches of 20000 moves"):
        hamiltonian_cycle(tutte)
    with pytest.raises(ScheduleError, match="'planes' has no Hamiltonian cycle: rank 0 is linked"):
        hamiltonian_cycle(planes_of(2, 1))


@over("torus:3x3 mesh:2x3 ring:4 ring:2")
def test_a_ring_sends_each_sum_around_to_its_root_and_the_result_on_from_there(topology):
    cycle = hamiltonian_cycle(topology)
    num_ranks = len(cycle)
    after = {rank: cycle[(place + 1) % num_ranks] for place, rank in enumerate(cycle)}
    schedule = build_ring(topology)
    assert schedule.num_steps == 2 * (num_ranks - 1)
    assert (schedule.dst == [after[rank] for rank in schedule.src.tolist()]).all()
    for flow in range(num_ranks):
        sources = schedule.src[schedule.flow == flow].tolist()
        assert sources[0] == after[flow]
        assert sources[num_ranks - 1] == flow
        assert sources[: num_ranks - 1] == [*sources[num_ranks:], sources[num_ranks - 2]]


@over("torus:3x3 mesh:2x3 ring:5")
def test_a_bidirectional_ring_sends_halves_both_ways_in_the_same_steps(topology):
    one_way, both = build_ring(topology), build_bidirectional_ring(topology)
    assert both.flow_offsets.tolist() == list(range(2 * topology.num_ranks + 1))
    assert both.num_steps == one_way.num_steps
    forwards, backwards = (both.flow % 2 == way for way in (0, 1))
    assert both.flow_roots.tolist() == [flow // 2 for flow in range(both.num_flows)]
    edges = set(zip(both.src[forwards].tolist(), both.dst[forwards].tolist(), strict=True))
    back = set(zip(both.dst[backwards].tolist(), both.src[backwards].tolist(), strict=True))
    assert edges == back == set(zip(one_way.src.tolist(), one_way.dst.tolist(), strict=True))


@over(*WITH_CYCLE)
@pytest.mark.parametrize("algorithm", ["ring", "bidirectional_ring"])
def test_rings_are_right_and_free_of_contention(topology, algorithm):
    schedule = build(topology, algorithm)
    assert verify(schedule).contention_free
    if topology.num_ranks <= 64:
        assert does_its_collective(schedule)
    for each in rooted(topology, algorithm, topology.num_ranks - 1):
        assert each.num_flows == (2 if algorithm == "bidirectional_ring" else 1)


def test_between_two_ranks_both_ways_take_parallel_links_or_turns():
    turns = build_bidirectional_ring(ring(2))
    assert (turns.num_steps, turns.max_link_load) == (4, 1)
    thick = Topology("thick", 2, 0, [[0, 1], [1, 0]] * 2, 16.0, 150.0)
    parallel = build_bidirectional_ring(thick)
    assert (parallel.num_steps, parallel.max_link_load) == (2, 1)


def test_a_one_way_circle_has_a_ring_but_none_in_both_directions():
    assert verify(build_ring(one_way_ring(3))).contention_free
    with pytest.raises(ScheduleError, match="'one way' must be joined by links with a reverse"):
        build_bidirectional_ring(one_way_ring(3))


@over(*SWITCHED)
def test_with_switches_a_ring_visits_switch_after_switch_and_no_two_messages_of_a_step_meet(
    topology,
):
    num_ranks = topology.num_ranks
    order = ring_order(topology)
    switch = [int(topology.links[topology.ports(rank)[0], 1]) for rank in order]
    changes = sum(here != there for here, there in itertools.pairwise(switch))
    assert changes == len(set(switch)) - 1
    schedule = build_ring(topology)
    assert verify(schedule).max_link_load == 1 and does_its_collective(schedule)
    assert (schedule.steps_reduce_scatter, schedule.steps_all_gather) == (num_ranks - 1,) * 2
    after = dict(zip(order, order[1:] + order[:1], strict=True))
    assert (schedule.dst == [after[rank] for rank in schedule.src.tolist()]).all()


@over(*SWITCHED)
def test_both_ways_at_once_take_turns_where_ranks_have_one_link(topology):
    schedule = build_bidirectional_ring(topology)
    turns = 1 if topology.family in ("dgx2", "dgx_a100") else 2
    assert verify(schedule).max_link_load == 1 and does_its_collective(schedule)
    assert schedule.num_steps == 2 * turns * (topology.num_ranks - 1)
    if turns == 2:
        assert (schedule.step % 2 == schedule.flow % 2).all()


def test_bigraph_rings_change_sides_at_every_switch_and_so_hop_over_one_link_between():
    schedule = build_ring(bigraph(4, 8))
    assert set(np.diff(schedule.route_offsets).tolist()) == {2, 3}


def test_a_ring_that_meets_itself_on_a_link_is_reported_and_both_ways_do_not_hide_it():
    # Rank 3 is farther from rank 1 than rank 2 is, but lies behind it.
    pairs = [(0, 4), (1, 5), (2, 6), (4, 5), (4, 6), (5, 7), (7, 8), (8, 3)]
    late = both_ways("late", 4, 5, pairs)
    assert ring_order(late) == [0, 1, 2, 3]
    assert verify(build_ring(late)).max_link_load == 2
    both = build_bidirectional_ring(late)
    assert verify(both).max_link_load == 2 and does_its_collective(both)
    assert both.num_steps == 12


@over("dgx2", planes_of(5, 3))
def test_every_link_of_every_rank_carries_a_chunk_in_every_step(topology):
    schedule = build_plane_rings(topology)
    report = verify(schedule)
    num_ranks, degree = topology.num_ranks, int(topology.degree[0])
    assert report.contention_free and does_its_collective(schedule)
    assert schedule.num_flows == num_ranks * degree
    assert schedule.steps_reduce_scatter == schedule.steps_all_gather == num_ranks - 1
    for end in (0, 1):
        of_ranks = np.flatnonzero(topology.links[:, end] < num_ranks)
        loads = np.bincount(schedule.route_links, minlength=topology.num_links)[of_ranks]
        assert (loads == 2 * (num_ranks - 1)).all()


@over("fat_tree:3x4 bigraph:2x4")
def test_over_one_plane_it_is_the_ring(topology):
    planes, ring = build_plane_rings(topology), build_ring(topology)
    for column in ("step", "op", "flow", "src", "dst", "route_links", "route_classes"):
        assert np.array_equal(getattr(planes, column), getattr(ring, column)), column


def test_large_buffers_come_to_the_bound_which_one_ring_misses_by_the_planes():
    topology, num_flits = planes_of(8, 3), 1 << 20
    bound = 2 * 7 / (8 * 3) * num_flits
    assert bound < analytic(build_plane_rings(topology), num_flits).cycles < 1.03 * bound
    assert analytic(build_ring(topology), num_flits).cycles > 2.9 * bound


def test_rooted_collectives_go_once_around_on_every_plane():
    for schedule in rooted(planes_of(4, 3), "plane_rings", 2):
        assert (schedule.num_flows, schedule.num_steps) == (3, 3)


def test_boxes_and_ranks_alone_are_refused_by_name():
    with pytest.raises(ScheduleError, match=r"'dgx_a100:2': plane_rings must .* not 2 boxes"):
        build_plane_rings(dgx_a100(2))
    with pytest.raises(ScheduleError, match=r"'torus:4x4': plane_rings must have switches"):
        build_plane_rings(torus(4, 4))
