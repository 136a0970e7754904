"""Families number ranks and links as the design says, and specs name them."""

import math
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from multitree import TopologyError, dgx_a100, dragonfly, parse_topology
from multitree.topology.families import switched
from multitree.topology.families.direct import fully_connected, hypercube, mesh, ring, torus
from multitree.topology.families.switched import bigraph, dgx2, fat_tree, kary_tree
from tests.refusals import refuses
from tests.topology.graphs import over

GRIDS = [(4, 4), (3, 5), (2, 2), (2, 3), (3, 2, 4), (7,)]


def same_graph(topology, graph):
    """Equal as graphs of numbered nodes, with a link each way for every edge."""
    pairs = sorted(tuple(pair) for pair in topology.links.tolist())
    return pairs == sorted(pair for u, v in graph.edges() for pair in ((u, v), (v, u)))


def grid(dims, *, periodic):
    graph = nx.grid_graph(dim=dims[::-1], periodic=periodic)
    number = {place: int(np.ravel_multi_index(np.atleast_1d(place), dims)) for place in graph}
    return nx.relabel_nodes(graph, number)


@pytest.mark.parametrize("dims", GRIDS)
def test_torus_and_mesh_are_the_grids_of_networkx(dims):
    assert same_graph(torus(*dims), grid(dims, periodic=True))
    assert same_graph(mesh(*dims), grid(dims, periodic=False))


@pytest.mark.parametrize("dims", GRIDS)
@pytest.mark.parametrize("family", [torus, mesh])
def test_links_go_rank_by_rank_dimension_by_dimension_minus_before_plus(family, dims):
    expected = []
    for rank in range(math.prod(dims)):
        place = np.unravel_index(rank, dims)
        for axis, size in enumerate(dims):
            for move in (-1, 1):
                moved = list(place)
                moved[axis] += move
                if family is torus and size > 2:
                    moved[axis] %= size
                if 0 <= moved[axis] < size:
                    expected.append([rank, int(np.ravel_multi_index(moved, dims))])
    assert family(*dims).links.tolist() == expected


def test_other_families_are_those_of_networkx():
    assert same_graph(ring(5), nx.cycle_graph(5))
    assert ring(2).links.tolist() == [[0, 1], [1, 0]]
    assert ring(5).links.tolist() == torus(5).links.tolist()
    cube = nx.relabel_nodes(nx.hypercube_graph(4), lambda b: sum(x << i for i, x in enumerate(b)))
    assert same_graph(hypercube(4), cube)
    assert same_graph(fully_connected(6), nx.complete_graph(6))
    assert all(hypercube(4).links[hypercube(4).ports(5), 1] == [4, 7, 1, 13])


@pytest.mark.parametrize(
    ("spec", "num_ranks", "num_links"),
    [
        *(("ring:16", 16, 32), ("torus:4x4", 16, 64), ("torus:2x2x2", 8, 24)),
        *(("mesh:8x8", 64, 224), ("hypercube:6", 64, 384), ("full:8", 8, 56)),
        *(("torus:256x256", 65536, 262144), ("fat_tree:4x4", 16, 64), ("fat_tree:8x8", 64, 256)),
        *(("kary_tree:16x1", 16, 32), ("kary_tree:4x3", 64, 384), ("kary_tree:4x3x2", 64, 224)),
        *(("bigraph:4x8", 32, 96), ("bigraph:4x16", 64, 256), ("dgx2", 16, 288)),
        *(("dragonfly:4x2x2", 72, 324), ("dragonfly:1x1x1", 2, 6), ("dragonfly:3x1x2", 24, 84)),
    ],
)
def test_a_spec_names_its_topology_and_is_its_name(spec, num_ranks, num_links):
    topology = parse_topology(spec)
    assert (topology.name, topology.num_ranks, topology.num_links) == (spec, num_ranks, num_links)
    assert (topology.bandwidth_gbytes_per_s == 16.0).all()
    assert (topology.latency_ns == 150.0).all()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("torus:4x", "Sizes of 'torus' must be like 4x4, not '4x'"),
        ("torus:", "Sizes of 'torus' must be like 4x4, not ''"),
        ("torus:4x-4", "Sizes of 'torus' must be like 4x4, not '4x-4'"),
        ("torus:99999999999", "must be like 4x4"),
        ("ring:4x4", "Sizes of 'ring' must be one number, not '4x4'"),
        ("ring:1", "Size of 'ring' must be within 2..65536, not 1"),
        ("mesh:1x4", "Size of 'mesh' must be within 2..65536, not 1"),
        ("torus:300x300", "Number of ranks must be at most 65536, not 90000"),
        ("hypercube:0", "Size of 'hypercube' must be within 1..16, not 0"),
        ("hypercube:17", "Size of 'hypercube' must be within 1..16, not 17"),
        ("full:2049", "Size of 'full' must be within 2..2048, not 2049"),
        ("fat_tree:4", "Sizes of 'fat_tree' must be two numbers, not '4'"),
        ("fat_tree:1x4", "Size of 'fat_tree' must be within 2..65536, not 1"),
        ("fat_tree:256x257", "Number of ranks must be at most 65536, not 65792 in 'fat_tree'"),
        ("kary_tree:4", "Sizes of 'kary_tree' must be two numbers or three numbers, not '4'"),
        ("kary_tree:4x2x3", "Oversubscription must be a divisor of 4, not 3"),
        ("kary_tree:4x2x5", "Size of 'kary_tree' must be within 1..4, not 5"),
        ("kary_tree:2x17", "Size of 'kary_tree' must be within 1..16, not 17"),
        ("kary_tree:4x9", "Number of ranks must be at most 65536, not 262144"),
        ("kary_tree:2x16", "Number of switches must be at most 65536, not 524288 in 'kary_tree'"),
        ("bigraph:4x7", "Number of switches must be even, not 7"),
        ("dgx_a100", "Topology must be a spec such as"),
        ("dgx_a100:1", "Size of 'dgx_a100' must be within 2..65536, not 1"),
        ("dgx_a100:4x0", "Size of 'dgx_a100' must be within 1..8192, not 0"),
        ("dgx_a100:8193", "Number of ranks must be at most 65536, not 65544 in 'dgx_a100'"),
        ("dgx_a100:2x2x2", "Sizes of 'dgx_a100' must be one number or two numbers"),
        ("dragonfly:4x2", "Sizes of 'dragonfly' must be three numbers, not '4x2'"),
        ("dragonfly:4x0x2", "Size of 'dragonfly' must be within 1..65536, not 0"),
        ("dragonfly:64x32x1", "Number of ranks must be at most 65536, not 131136 in 'dragonfly'"),
        ("dragonfly:255x1x1", "Links must be at most 4194304, not 16776960 in 'dragonfly'"),
        ("dgx2:4", "Sizes of 'dgx2' must be none, not '4'"),
        ("torus", "Topology must be a spec such as 'torus:4x4'"),
        ("fattree:4", "Topology family must be one of .*hypercube.*, not 'fattree'"),
        ("", "Topology must be a spec such as 'torus:4x4' or the path of a file, not ''"),
        ("nowhere", "Topology must be a spec such as"),
        ("nowhere.json", "nowhere.json: file must be readable, not: No such file"),
        (Path("torus:4x4"), "torus:4x4: file must be readable"),
    ],
)
def test_a_wrong_spec_is_refused_in_one_sentence(spec, message):
    refuses(TopologyError, message, parse_topology, spec)


def test_wrong_types_of_sizes_and_specs_are_refused():
    refuses(TypeError, "Topology must be a spec or a path, not 4", parse_topology, 4)
    refuses(TopologyError, r"Size of 'ring' must be within 2..65536, not 4.0", ring, 4.0)
    refuses(TopologyError, r"Size of 'ring' must be within 2..65536, not True", ring, True)
    refuses(TopologyError, "Sizes of 'torus' must be at least one number", torus)
    assert torus(np.int64(4), np.int32(4)).name == "torus:4x4"


@pytest.mark.parametrize(("leaves", "hosts"), [(4, 4), (2, 1), (3, 5)])
def test_a_fat_tree_has_its_hosts_on_leaves_and_every_leaf_linked_with_every_spine(leaves, hosts):
    num_ranks = leaves * hosts
    graph = nx.Graph((rank, num_ranks + rank // hosts) for rank in range(num_ranks))
    spines = range(num_ranks + leaves, num_ranks + leaves + hosts)
    graph.add_edges_from((num_ranks + leaf, spine) for leaf in range(leaves) for spine in spines)
    assert same_graph(fat_tree(leaves, hosts), graph)
    if leaves == hosts:
        assert (kary_tree(leaves, 2).links == fat_tree(leaves, hosts).links).all()


@pytest.mark.parametrize("sizes", [(3, 3, 1), (4, 3, 2), (4, 3, 4), (2, 4, 1), (5, 1, 1)])
def test_switches_of_a_kary_tree_stand_above_equal_digits(sizes):
    k, levels, oversubscription = sizes
    up_links = k // oversubscription
    nodes = [(0, place, ()) for place in np.ndindex(*(k,) * levels)]
    for level in range(1, levels + 1):
        above = (k,) * (levels - level), (up_links,) * (level - 1)
        nodes += [(level, a, b) for a in np.ndindex(*above[0]) for b in np.ndindex(*above[1])]
    number = {node: index for index, node in enumerate(nodes)}
    graph = nx.Graph()
    for level, above, turns in nodes:
        if level < levels:
            ups = [()] if level == 0 else [(up, *turns) for up in range(up_links)]
            graph.add_edges_from(
                (number[level, above, turns], number[level + 1, above[:-1], up]) for up in ups
            )
    assert same_graph(kary_tree(*sizes), graph)
    assert kary_tree(*sizes).num_nodes == len(nodes)


@pytest.mark.parametrize(("hosts", "switches"), [(4, 8), (1, 2), (3, 4)])
def test_a_bigraph_links_each_switch_with_its_hosts_and_the_other_half(hosts, switches):
    num_ranks = hosts * switches
    graph = nx.Graph((rank, num_ranks + rank // hosts) for rank in range(num_ranks))
    halves = nx.complete_bipartite_graph(switches // 2, switches // 2)
    graph.add_edges_from((num_ranks + u, num_ranks + v) for u, v in halves.edges)
    assert same_graph(bigraph(hosts, switches), graph)


def test_dgx2_has_six_planes_of_two_switches_joined_eightfold():
    graph = nx.MultiGraph()
    for board in range(2):
        for plane in range(6):
            switch = 16 + 6 * board + plane
            graph.add_edges_from((8 * board + gpu, switch) for gpu in range(8))
    graph.add_edges_from((16 + plane, 22 + plane) for plane in range(6) for _ in range(8))
    assert same_graph(dgx2(), graph)


@pytest.mark.parametrize(("boxes", "spines"), [(2, 2), (4, 2), (3, 5)])
def test_boxes_have_six_planes_and_a_rail_for_each_gpu_half_as_fast(boxes, spines):
    graph, fast = nx.Graph(), set()
    leaf, spine = 14 * boxes, 14 * boxes + 8
    for gpu in range(8 * boxes):
        box, place = divmod(gpu, 8)
        fast |= {(gpu, 8 * boxes + 6 * box + plane) for plane in range(6)}
        graph.add_edge(gpu, leaf + place)
    graph.add_edges_from((leaf + rail, spine + k) for rail in range(8) for k in range(spines))
    graph.add_edges_from(fast)
    pod = dgx_a100(boxes, spines)
    assert same_graph(pod, graph) and pod.num_nodes == len(graph)
    ends = [tuple(sorted(pair)) for pair in pod.links.tolist()]
    assert pod.bandwidth_gbytes_per_s.tolist() == [16.0 if end in fast else 8.0 for end in ends]
    assert pod.name == (f"dgx_a100:{boxes}x{spines}" if spines != boxes else f"dgx_a100:{boxes}")
    assert (dgx_a100(boxes, boxes).links == dgx_a100(boxes).links).all()


@pytest.mark.parametrize("sizes", [(4, 2, 2), (1, 3, 2), (3, 1, 1), (2, 3, 1)])
def test_a_dragonfly_joins_all_of_a_group_and_any_two_groups_by_one_link(sizes):
    a, h, p = sizes
    fly = dragonfly(*sizes)
    num_ranks = fly.num_ranks
    groups = a * h + 1
    assert (num_ranks, fly.num_switches) == (a * p * groups, a * groups)
    joined = {}
    for node in range(fly.num_nodes):
        ends = fly.links[fly.ports(node), 1].tolist()
        if node < num_ranks:
            assert ends == [num_ranks + node // p]
            continue
        router = node - num_ranks
        group, place = divmod(router, a)
        mates = [num_ranks + group * a + other for other in range(a) if other != place]
        assert ends[: p + a - 1] == [*range(router * p, router * p + p), *mates]
        for k, end in enumerate(ends[p + a - 1 :]):
            other = (end - num_ranks) // a
            assert other == (group + place * h + k + 1) % groups
            joined[group, other] = (node, end)
    assert sorted(joined) == sorted((i, j) for i in range(groups) for j in range(groups) if i != j)
    assert all(joined[j, i] == (end, start) for (i, j), (start, end) in joined.items())
    apart = [fly.hop_distances(rank)[:num_ranks].max() for rank in range(num_ranks)]
    assert max(apart) == fly.diameter


@over("fat_tree:3x4 kary_tree:4x3x2 bigraph:3x6 dgx2 dgx_a100:3x2")
def test_links_of_a_network_with_switches_go_node_by_node_down_before_up(topology):
    assert (np.diff(topology.links[:, 0]) >= 0).all()
    for node in range(topology.num_nodes):
        assert (np.diff(topology.links[topology.ports(node), 1]) >= 0).all()
    assert (topology.degree[: topology.num_ranks] == topology.least_degree).all()


@pytest.mark.parametrize("family", [lambda: kary_tree(2, 3), lambda: fat_tree(3, 2)])
def test_a_tree_may_have_as_many_switches_as_ids_and_no_more(family, monkeypatch):
    num_switches = family().num_switches
    monkeypatch.setattr(switched, "MAX_RANKS", num_switches)
    assert family().num_switches == num_switches
    monkeypatch.setattr(switched, "MAX_RANKS", num_switches - 1)
    refuses(TopologyError, f"switches must be at most .*, not {num_switches} in", family)
