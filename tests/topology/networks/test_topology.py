"""A topology numbers its links and ports as designed, and knows its measures."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from multitree import Topology, TopologyError, ring
from multitree.topology.arrays import int32s
from multitree.topology.families.registry import FAMILIES as REGISTERED
from multitree.topology.networks.measures import smallest_cut
from tests.refusals import refuses
from tests.topology.graphs import over, random_topology, star, topologies

FAMILIES = (
    "ring:2 ring:7 torus:3x5 torus:2x3x4 mesh:4x5 mesh:2x3x2 hypercube:1 hypercube:4",
    "full:5 fat_tree:2x3 kary_tree:3x2 kary_tree:4x2x4 kary_tree:3x1 bigraph:1x2 bigraph:2x4",
    "dgx_a100:2 dragonfly:2x1x2",
    *(example for family in REGISTERED.values() for example in family.examples),
)


@given(topologies(switches=None, alike=True))
@settings(deadline=None, print_blob=True)
def test_port_p_of_a_node_is_its_pth_outgoing_link_by_id(topology):
    for node in range(topology.num_nodes):
        outgoing = [link for link, (src, _) in enumerate(topology.links.tolist()) if src == node]
        ports = list(range(len(outgoing)))
        assert topology.ports(node).tolist() == outgoing
        assert topology.num_ports[node] == topology.degree[node] == len(outgoing)
        assert topology.link_ports[outgoing].tolist() == ports
        assert [topology.port_of_link(link) for link in outgoing] == ports
        assert [topology.link_at(node, port) for port in [*ports, len(ports)]] == [*outgoing, None]


@given(topologies())
@settings(deadline=None, print_blob=True)
def test_the_kth_parallel_link_pairs_with_the_kth_the_other_way(topology):
    links = [tuple(pair) for pair in topology.links.tolist()]
    for link, (src, dst) in enumerate(links):
        k = links[:link].count((src, dst))
        back = [other for other, pair in enumerate(links) if pair == (dst, src)]
        assert topology.reverse[link] == (back[k] if k < len(back) else -1)
    assert topology.is_symmetric == (-1 not in topology.reverse)


@given(topologies(switches=None))
@settings(deadline=None, print_blob=True)
def test_distances_diameter_and_smallest_cut_are_those_of_networkx(topology):
    num_ranks, num_nodes = topology.num_ranks, topology.num_nodes
    distances = dict(nx.all_pairs_shortest_path_length(nx.DiGraph(topology.to_networkx())))
    apart = [[distances[rank][node] for node in range(num_nodes)] for rank in range(num_ranks)]
    assert [topology.hop_distances(rank).tolist() for rank in range(num_ranks)] == apart
    assert topology.diameter == max(max(row[:num_ranks]) for row in apart)
    if num_nodes <= 10:
        assert topology.min_cut == min(
            sum(inside >> src & 1 > inside >> dst & 1 for src, dst in topology.links.tolist())
            for inside in range(2**num_nodes)
            if 0 < inside % 2**num_ranks < 2**num_ranks - 1
        )


@over(*FAMILIES)
def test_closed_forms_of_a_family_are_what_its_graph_says(topology):
    copy = replace(topology, family="custom", dims=())
    assert topology.diameter == copy.diameter
    assert topology.min_cut == copy.min_cut == topology.least_degree


def test_a_cut_parts_ranks_and_never_a_switch_alone():
    links = [*star(4).links.tolist(), [0, 1], [1, 0]]
    topology = Topology("star", 4, 1, links, 16.0, 150.0)
    assert topology.min_cut == 1
    assert topology.diameter == 2
    slow_switch = np.where((topology.links == 4).any(axis=1), 1.0, 5.0)
    assert smallest_cut(topology.links, slow_switch, 4) == 1.0
    # A switch on a spur of low capacity is not what counts.
    spur = Topology("spur", 2, 1, [[0, 1], [1, 0], [1, 0], [0, 1], [1, 2], [2, 1]], 16.0, 150.0)
    assert spur.min_cut == 2


def test_of_a_one_way_graph_the_smallest_cut_is_taken_in_its_worse_direction():
    both = [[0, 1], [1, 0], [0, 1], [1, 2], [2, 1], [1, 2], [2, 1]]
    assert Topology("lopsided", 3, 0, both, 16.0, 150.0).min_cut == 1


@pytest.mark.parametrize("both_directions", [True, False])
def test_a_graph_goes_to_networkx_and_back_unchanged(both_directions):
    for seed in range(20):
        topology = random_topology(seed, both_directions=both_directions)
        back = Topology.from_networkx(topology.to_networkx(), name="back")
        assert (back.links == topology.links).all(), f"seed {seed}"
        assert back.num_ranks == topology.num_ranks
    speeds = Topology("fast", 2, 0, [[0, 1], [1, 0]], [1.0, 2.0], [3.0, 4.0])
    back = Topology.from_networkx(speeds.to_networkx())
    assert back.bandwidth_gbytes_per_s.tolist() == [1.0, 2.0]
    assert back.latency_ns.tolist() == [3.0, 4.0]
    assert Topology.from_networkx(star(3).to_networkx()).num_switches == 1


def test_an_undirected_graph_becomes_one_link_each_way_by_ascending_ends():
    graph = nx.Graph([("c", "a"), ("a", "b")])
    graph.add_edge("b", "hub", latency_ns=7)
    graph.nodes["hub"]["kind"] = "switch"
    topology = Topology.from_networkx(graph)
    assert (topology.num_ranks, topology.num_switches) == (3, 1)
    assert topology.links.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1], [2, 3], [3, 2]]
    assert topology.latency_ns.tolist() == [150.0, 150.0, 150.0, 150.0, 7.0, 7.0]
    refuses(TypeError, "Graph must be a networkx graph, not 3", Topology.from_networkx, 3)


def test_links_of_a_graph_keep_its_order_where_ends_are_equal_and_nothing_numbers_them():
    graph = nx.MultiDiGraph([(1, 0), (0, 1)])
    for bandwidth in (5.0, 3.0, 4.0):
        graph.add_edge(0, 1, bandwidth_gbytes_per_s=bandwidth)
    topology = Topology.from_networkx(graph)
    assert topology.links.tolist() == [[0, 1]] * 4 + [[1, 0]]
    assert topology.bandwidth_gbytes_per_s.tolist() == [16.0, 5.0, 3.0, 4.0, 16.0]
    nx.set_edge_attributes(graph, {edge: 9 - i for i, edge in enumerate(graph.edges)}, "link")
    assert Topology.from_networkx(graph).bandwidth_gbytes_per_s.tolist() == [4, 3, 5, 16, 16]
    undirected = nx.Graph([(0, 1), (1, 2)])
    nx.set_edge_attributes(undirected, {(0, 1): 1, (1, 2): 0}, "link")
    links = Topology.from_networkx(undirected).links.tolist()
    assert links == [[0, 1], [1, 0], [1, 2], [2, 1]]


def test_integers_are_taken_up_to_the_limits_of_32_bits_and_no_further():
    limits = [-(2**31), 2**31 - 1]
    assert int32s("Numbers", limits).tolist() == limits
    for wrong in (-(2**31) - 1, 2**31):
        with pytest.raises(ValueError, match=f"Numbers must be within 32 bits, not {abs(wrong)}"):
            int32s("Numbers", [0, wrong])


def test_arrays_of_a_topology_cannot_be_written_and_are_copies():
    links = np.array([[0, 1], [1, 0]])
    topology = Topology("pair", 2, 0, links, 16.0, 150.0)
    links[0] = 7
    assert topology.links[0].tolist() == [0, 1]
    for array in (topology.links, topology.bandwidth_gbytes_per_s, topology.ports(0)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 0, [[0, 1]]), "Number of ranks must be within 2..65536, not 1"),
        ((2.0, 0, [[0, 1]]), "Number of ranks must be within 2..65536, not 2.0"),
        ((2, -1, [[0, 1]]), "Number of switches must be within 0..65536, not -1"),
        ((2, 0, [0, 1]), r"Links must be an array of shape \(n, 2\), not \(2,\)"),
        ((2, 0, [[0, 1], [1, 2]]), r"Link 1 must join nodes 0..1, not \[1, 2\]"),
        ((2, 0, [[0, 1], [-1, 0]]), r"Link 1 must join nodes 0..1, not \[-1, 0\]"),
        ((2, 0, [[0, 1], [1, 1]]), r"Link 1 must join two different nodes, not \[1, 1\]"),
        ((3, 0, [[0, 1], [1, 0]]), "Every node of 'x' must be reachable from rank 0, .* node 2"),
        ((3, 0, [[0, 1], [1, 0], [0, 2]]), "must be able to reach rank 0, not all but node 2"),
    ],
)
def test_what_is_no_topology_is_refused_by_name(arguments, message):
    refuses(TopologyError, message, Topology, "x", *arguments, 16.0, 150.0)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_speed_or_delay_that_is_not_positive_is_refused_by_link(wrong):
    pair = [[0, 1], [1, 0]]
    with pytest.raises(TopologyError, match="bandwidth_gbytes_per_s of link 1 must be positive"):
        Topology("x", 2, 0, pair, [1.0, wrong], 150.0)
    with pytest.raises(TopologyError, match="latency_ns of link 0 must be positive"):
        Topology("x", 2, 0, pair, 16.0, [wrong, 1.0])
    with pytest.raises(TopologyError, match="latency_ns must be one number per link"):
        Topology("x", 2, 0, pair, 16.0, [1.0, 1.0, 1.0])


def test_a_wrong_link_rank_or_type_is_refused():
    topology = ring(4)
    with pytest.raises(TypeError, match="Links must be integers, not float64"):
        Topology("x", 2, 0, [[0.5, 1], [1, 0]], 16.0, 150.0)
    with pytest.raises(ValueError, match="Links must be within 32 bits"):
        Topology("x", 2, 0, [[0, 2**40], [1, 0]], 16.0, 150.0)
    refuses(TopologyError, r"Rank must be within 0..3, not 4", topology.ports, 4)
    refuses(TopologyError, r"Link must be within 0..7, not -1", topology.port_of_link, -1)
    refuses(TopologyError, r"Source must be within 0..3, not 9", topology.hop_distances, 9)
