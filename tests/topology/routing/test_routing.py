"""Routes are paths, on families shortest, and no messages wait in a circle."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from multitree import parse_topology
from multitree.topology.arrays import rows_of_entries
from multitree.topology.networks.measures import adjacency, hops_from
from multitree.topology.routing.default_routes import routes
from multitree.topology.routing.updown import up_down
from tests.topology.graphs import (
    both_ways,
    copy_of,
    one_way_ring,
    over,
    random_switched_topology,
    random_topology,
)
from tests.topology.oracles import goes_up_then_down

NETWORKS = (
    "ring:2 ring:5 ring:8 torus:4x4 torus:3x5 torus:2x3x4 mesh:4x5 mesh:2x3x2",
    "hypercube:1 hypercube:4 full:5 fat_tree:4x4 fat_tree:2x1 fat_tree:3x5 bigraph:4x8 bigraph:3x2",
    "kary_tree:5x1 kary_tree:3x3 kary_tree:4x2x2 kary_tree:4x3x4 dgx2 dgx_a100:2 dgx_a100:3x2",
)


def all_pairs(topology):
    src, dst = np.nonzero(~np.eye(topology.num_ranks, dtype=bool))
    return src.astype(np.int32), dst.astype(np.int32)


def checked_routes(topology):
    """The routes of all pairs, after a look that each is a path and that none wait in circles."""
    src, dst = all_pairs(topology)
    offsets, links, classes = routes(topology, src, dst)
    circles = nx.DiGraph()
    columns = (column.tolist() for column in (src, dst, offsets[:-1], offsets[1:]))
    for start, end, first, last in zip(*columns, strict=True):
        ways = topology.links[links[first:last]].tolist()
        assert [ways[0][0], ways[-1][1]] == [start, end]
        assert all(before[1] == after[0] for before, after in pairwise(ways))
        hops = list(zip(links[first:last].tolist(), classes[first:last].tolist(), strict=True))
        circles.add_edges_from(pairwise(hops))
    assert nx.is_directed_acyclic_graph(circles)
    return offsets, links, classes


def passed(topology, offsets, links):
    """The nodes that messages pass through."""
    onward = np.ones(len(links), bool)
    onward[offsets[:-1]] = False
    return topology.links[links[onward], 0]


@over(*NETWORKS)
def test_routes_of_a_family_are_shortest_and_no_two_of_all_wait_in_a_circle(topology):
    offsets, links, classes = checked_routes(topology)
    src, dst = all_pairs(topology)
    apart = np.stack([topology.hop_distances(rank) for rank in range(topology.num_ranks)])
    assert (np.diff(offsets) == apart[src, dst]).all()
    has_two = topology.family == "bigraph" or topology.name in ("ring:5", "ring:8", "torus:3x5")
    assert classes.max() == int(has_two)
    if topology.num_switches:
        assert (passed(topology, offsets, links) >= topology.num_ranks).all()
        goes_up_then_down(topology, src, offsets, links, classes)


@over("dragonfly:4x2x2 dragonfly:1x2x2 dragonfly:2x3x1")
def test_routes_on_a_dragonfly_pass_no_third_group_and_no_two_of_all_wait_in_a_circle(topology):
    a, _, p = topology.dims
    offsets, links, classes = checked_routes(topology)
    src, dst = all_pairs(topology)
    goes_up_then_down(topology, src, offsets, links, classes)
    groups = (topology.links - topology.num_ranks) // a
    row = rows_of_entries(offsets)
    inner = (topology.links[links] >= topology.num_ranks).all(axis=1)
    across = inner & (groups[links][:, 0] != groups[links][:, 1])
    home, goal = (ends // (a * p) for ends in (src, dst))
    assert (np.bincount(row[across], minlength=len(src)) == (home != goal)).all()
    for group in (home, goal):
        within = inner & ~across & (groups[links][:, 0] == group[row])
        assert np.bincount(row[within], minlength=len(src)).max() == (a > 1)
    assert (np.diff(offsets) <= 5).all()
    assert (classes[inner] == (groups[links][inner, 0] != home[row][inner])).all()


@over(*NETWORKS)
def test_a_graph_of_no_family_is_routed_up_then_down_in_one_class(topology):
    topology = copy_of(topology)
    offsets, links, classes = checked_routes(topology)
    assert not classes.any()
    inner = np.ones(topology.num_links, bool)
    if topology.num_switches:
        inner = (topology.links >= topology.num_ranks).all(axis=1)
    legal = up_down(topology)
    up, down = legal.links_up(topology.links), legal.links_down(topology.links)
    assert (up ^ down)[inner].all()
    if topology.num_switches:
        assert (passed(topology, offsets, links) >= topology.num_ranks).all()


@pytest.mark.parametrize("make", [random_topology, random_switched_topology])
@pytest.mark.parametrize("both_directions", [True, False])
def test_random_graphs_are_routed_without_circles(make, both_directions):
    for seed in range(40):
        topology = make(seed, both_directions=both_directions)
        print(f"seed {seed}")
        offsets, links, classes = checked_routes(topology)
        goes_up_then_down(topology, all_pairs(topology)[0], offsets, links, classes)
        assert classes.max() <= (0 if topology.is_symmetric else 1)
        ranks_pass = (passed(topology, offsets, links) < topology.num_ranks).any()
        assert not (ranks_pass and _switches_suffice(topology))


def test_a_message_that_has_gone_down_never_goes_up_again_where_that_were_shorter():
    pairs = [[0, 1], [1, 2], [2, 3], [0, 4], [4, 5], [5, 6], [0, 7], [7, 8], [8, 9]]
    pairs += [[3, 10], [6, 10], [9, 11], [10, 11], [9, 12], [11, 12], [12, 13], [6, 13]]
    topology = both_ways("branches", 14, 0, pairs)
    for src, way in ((3, [10, 11, 12, 13]), (10, [6, 13])):
        taken = routes(topology, np.array([src]), np.array([13]))[1]
        assert topology.links[taken, 1].tolist() == way


def test_what_a_link_joins_needs_no_switch():
    # Of three ranks, switches join two pairs and a link the third.
    pairs = [[0, 3], [1, 3], [0, 4], [2, 4], [1, 2]]
    topology = both_ways("triangle", 3, 2, pairs)
    assert not up_down(topology).links_down(topology.links)[topology.links[:, 0] < 3].any()
    without = both_ways("path", 3, 2, pairs[:-1])
    assert up_down(without).links_down(without.links)[without.links[:, 0] < 3].any()


def _switches_suffice(topology):
    """Whether up*/down* through switches alone, or a link, joins every pair: by plain search."""
    tails, heads = topology.links.T
    switch = np.arange(topology.num_nodes) >= topology.num_ranks
    if not topology.is_symmetric or not topology.num_switches:
        return False
    inner = switch[tails] | switch[heads]
    for rank in range(topology.num_ranks):
        usable = inner & (switch[tails] | (tails == rank))
        ways = adjacency(tails[usable], heads[usable], topology.num_nodes)
        found = hops_from(ways, rank)[: topology.num_ranks] >= 0
        found[heads[(tails == rank) & (heads < topology.num_ranks)]] = True
        if not found.all():
            return False
    return True


def test_a_ring_goes_the_shorter_way_and_changes_class_behind_the_link_that_wraps():
    topology = parse_topology("ring:6")
    offsets, links, classes = routes(topology, np.array([4, 1, 1, 2, 0]), np.array([1, 4, 5, 5, 1]))
    ways = np.split(topology.links[links, 1], offsets[1:-1])
    assert [way.tolist() for way in ways] == [[5, 0, 1], [0, 5, 4], [0, 5], [3, 4, 5], [1]]
    assert classes.tolist() == [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]


def test_grids_go_by_the_slowest_dimension_first_and_cubes_by_the_lowest_bit():
    for spec, pair, way in (
        ("mesh:3x3", (0, 8), [3, 6, 7, 8]),
        ("torus:4x5", (6, 18), [1, 16, 17, 18]),
        ("hypercube:4", (0b0101, 0b1010), [0b0100, 0b0110, 0b0010, 0b1010]),
    ):
        topology = parse_topology(spec)
        links = routes(topology, *np.array(pair)[:, None])[1]
        assert topology.links[links, 1].tolist() == way


@over("fat_tree:4x4 fat_tree:3x5 kary_tree:3x3 dgx_a100:3")
def test_on_networks_with_full_cuts_every_shift_puts_one_message_on_a_link(topology):
    rank = np.arange(topology.num_ranks)
    for shift in range(1, topology.num_ranks):
        links = routes(topology, rank, (rank + shift) % topology.num_ranks)[1]
        between = (topology.links[links] >= topology.num_ranks).all(axis=1)
        busy = links if topology.name != "dgx_a100:3" else links[between]
        assert np.bincount(busy).max(initial=0) <= 1


def test_within_a_half_of_a_bigraph_the_destination_picks_where_to_turn():
    topology = parse_topology("bigraph:3x8")
    src, dst = all_pairs(topology)
    offsets, links, classes = routes(topology, src, dst)
    assert (classes == np.repeat(src // 12, np.diff(offsets))).all()
    turns = topology.links[links[offsets[:-1] + 1], 1] - 24
    within = (src // 12 == dst // 12) & (src // 3 != dst // 3)
    assert (turns[within] == 4 * (1 - src // 12)[within] + dst[within] % 4).all()


def test_dgx2_spreads_all_pairs_over_planes_and_parallel_links():
    topology = parse_topology("dgx2")
    loads, loads_of_copy = (
        np.bincount(routes(each, *all_pairs(each))[1], minlength=topology.num_links)
        for each in (topology, copy_of(topology))
    )
    between = (topology.links >= 16).all(axis=1)
    assert loads[~between].max() == 3 and loads[between].max() == 2
    assert loads.min() == 1
    # Routes of no family, too, take all planes from every rank.
    assert loads_of_copy[topology.links[:, 0] < 16].min() >= 1


def test_in_a_box_six_gpus_have_a_plane_and_two_share_one_and_a_ring_uses_each_once():
    pod = parse_topology("dgx_a100:2")
    src, dst = all_pairs(pod)
    near = (src // 8 == dst // 8).nonzero()[0]
    loads = np.bincount(routes(pod, src[near], dst[near])[1], minlength=pod.num_links)
    in_box = (pod.links < 28).all(axis=1)
    assert np.unique(loads[in_box], return_counts=True)[1].tolist() == [160, 32]
    assert loads.max() == 2 and not loads[~in_box].any()
    around = np.arange(8)
    both = np.r_[around, around], np.r_[(around + 1) % 8, (around - 1) % 8]
    assert np.bincount(routes(pod, *both)[1]).max() == 1


def test_between_boxes_the_ways_to_a_rank_are_one_tree():
    pod = parse_topology("dgx_a100:3x2")
    src, dst = all_pairs(pod)
    far = (src // 8 != dst // 8).nonzero()[0]
    offsets, links, _ = routes(pod, src[far], dst[far])
    onward = {}
    for goal, link in zip(dst[far][rows_of_entries(offsets)], links.tolist(), strict=True):
        assert onward.setdefault((goal, pod.links[link, 0]), link) == link
    above = (pod.links[:, 0] < 50) & (pod.links[:, 1] >= 50)
    assert above.sum() == 16 and up_down(pod).links_up(pod.links)[above].all()


def test_one_way_graphs_turn_from_class_0_to_class_1_where_they_turn_down():
    offsets, links, classes = routes(one_way_ring(4), np.array([2, 1]), np.array([1, 3]))
    assert links.tolist() == [2, 3, 0, 1, 2]
    assert classes.tolist()[:3] == [0, 0, 1]
    assert len(rows_of_entries(offsets)) == 5


def test_a_route_may_be_as_long_as_a_network():
    num_switches = 100
    nodes = [0, *range(2, 2 + num_switches), 1]
    offsets, _, _ = checked_routes(both_ways("chain", 2, num_switches, pairwise(nodes)))
    assert np.diff(offsets).tolist() == 2 * [num_switches + 1]
