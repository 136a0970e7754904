"""Two trees share out the work, and their steps let nobody send or receive twice."""

import math

import numpy as np
import pytest

from multitree import ScheduleError, bigraph, build, fully_connected, torus, verify
from multitree.topology.algorithms.double_tree import build_double_tree, two_trees
from multitree.topology.collectives import Op
from tests.topology.oracles import does_its_collective, rooted

SIZES = [2, 3, 4, 5, 7, 8, 12, 13, 16, 33, 64]


@pytest.mark.parametrize("num_ranks", SIZES)
def test_nobody_but_the_root_has_children_in_both_trees_and_nobody_more_than_two(num_ranks):
    children = [np.bincount(parent[1:], minlength=num_ranks) for parent in two_trees(num_ranks)]
    assert children[0][0] == children[1][0] == 1
    assert not (children[0][1:] * children[1][1:]).any()
    assert max(map(max, children)) <= 2


@pytest.mark.parametrize("num_ranks", SIZES)
def test_trees_are_no_higher_than_a_binary_tree_below_the_root(num_ranks):
    schedule = build_double_tree(fully_connected(num_ranks), num_chunks=1)
    assert schedule.tree_height_hops == max(1, math.ceil(math.log2(num_ranks)))


@pytest.mark.parametrize("num_ranks", SIZES)
def test_in_every_step_a_rank_sends_at_most_once_and_receives_at_most_once(num_ranks):
    schedule = build_double_tree(fully_connected(num_ranks))
    for end in (schedule.src, schedule.dst):
        assert np.unique(schedule.step * num_ranks + end).size == schedule.num_transfers
    report = verify(schedule)
    assert report.contention_free and report.max_siblings == 1
    assert report.max_messages_per_rank <= 4 * (schedule.num_flows // 2)
    assert num_ranks > 16 or does_its_collective(schedule)


@pytest.mark.parametrize("num_ranks", SIZES)
def test_a_chunk_more_takes_two_steps_more_per_phase(num_ranks):
    topology = fully_connected(num_ranks)
    alone = build_double_tree(topology, num_chunks=1).steps_reduce_scatter
    assert alone <= 2 * math.ceil(math.log2(num_ranks))
    for num_chunks in (2, 5):
        schedule = build_double_tree(topology, num_chunks=num_chunks)
        steps = alone + 2 * (num_chunks - 1)
        assert (schedule.steps_reduce_scatter, schedule.steps_all_gather) == (steps, steps)
        assert schedule.num_flows == 2 * num_chunks
    default = build_double_tree(topology)
    assert default.num_flows == 2 * (num_ranks // 2)


def test_each_tree_has_its_half_of_the_buffer_and_all_chunks_of_it_go_the_same_way():
    schedule = build_double_tree(fully_connected(6), num_chunks=3)
    edges = [
        sorted(zip(schedule.src[rows].tolist(), schedule.dst[rows].tolist(), strict=True))
        for rows in ((schedule.flow == flow) & (schedule.op == Op.REDUCE) for flow in range(6))
    ]
    assert edges[0] == edges[1] == edges[2] != edges[3] == edges[4] == edges[5]
    first, second = (dict(edges[flow]) for flow in (0, 3))
    parents = [[0, *(tree[rank] for rank in range(1, 6))] for tree in (first, second)]
    assert parents == two_trees(6).tolist()


def test_what_is_summed_first_is_spread_first_in_both_trees():
    schedule = build_double_tree(fully_connected(16), num_chunks=5)
    for op, end in ((Op.REDUCE, schedule.dst), (Op.GATHER, schedule.src)):
        at_root = (schedule.op == op) & (end == 0)
        flows = schedule.flow[at_root]
        assert [flow for flow in flows.tolist() if flow < 5] == [*range(5)]
        assert [flow for flow in flows.tolist() if flow >= 5] == [*range(5, 10)]


def test_other_roots_turn_the_trees_and_several_take_turns():
    rooted(fully_connected(7), "double_tree", 5)
    both = build_double_tree(fully_connected(7), roots=[5, 2], num_chunks=2)
    assert both.flow_roots.tolist() == [5] * 4 + [2] * 4
    assert verify(both).contention_free and does_its_collective(both)


def test_with_switches_neighbours_in_trees_are_near():
    schedule = build_double_tree(bigraph(4, 8))
    assert verify(schedule).max_link_load == 2  # 3 if trees went by the numbers of ranks
    assert len(schedule.route_links) <= 2.6 * schedule.num_transfers  # 2.87 then


def test_what_it_cannot_do_is_refused():
    with pytest.raises(ScheduleError, match="Number of chunks must be at least 1, not 0"):
        build_double_tree(fully_connected(4), num_chunks=0)
    for collective in ("reduce_scatter", "all_gather"):
        with pytest.raises(ScheduleError, match=f"{collective} must have one flow rooted at each"):
            build(torus(4, 4), "double_tree", collective)
