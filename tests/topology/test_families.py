"""Families number ranks and links as the design says, and specs name them."""

import math
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from multitree.topology.errors import TopologyError
from multitree.topology.families import (
    fully_connected,
    hypercube,
    mesh,
    parse_topology,
    ring,
    torus,
)

GRIDS = [(4, 4), (3, 5), (2, 2), (2, 3), (3, 2, 4), (7,)]


def same_graph(topology, graph):
    """Equal as labelled graphs, with one link each way per edge."""
    pairs = [tuple(pair) for pair in topology.links.tolist()]
    wanted = [pair for u, v in graph.edges for pair in ((u, v), (v, u))]
    return len(pairs) == len(set(pairs)) and set(pairs) == set(wanted)


def numbered(graph, dims):
    if len(dims) == 1:
        return graph
    return nx.relabel_nodes(graph, lambda place: int(np.ravel_multi_index(place, dims)))


@pytest.mark.parametrize("dims", GRIDS)
def test_torus_and_mesh_are_the_grids_of_networkx(dims):
    shape = list(dims) if len(dims) > 1 else dims[0]
    wrapped = nx.grid_graph(dim=tuple(reversed(dims)), periodic=True)
    if any(size == 2 for size in dims):
        wrapped.remove_edges_from([edge for edge in wrapped.edges if edge[0] == edge[1]])
    plain = nx.grid_graph(dim=tuple(reversed(dims)))
    if len(dims) == 1:
        assert same_graph(torus(*dims), nx.cycle_graph(shape))
        assert same_graph(mesh(*dims), nx.path_graph(shape))
    else:
        assert same_graph(torus(*dims), numbered(wrapped, dims))
        assert same_graph(mesh(*dims), numbered(plain, dims))


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
        ("ring:16", 16, 32),
        ("torus:4x4", 16, 64),
        ("torus:2x2x2", 8, 24),
        ("mesh:8x8", 64, 224),
        ("hypercube:6", 64, 384),
        ("full:8", 8, 56),
        ("torus:256x256", 65536, 262144),
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
        ("fattree:4", "Topology family must be one of .*hypercube.*, not 'fattree'"),
        ("", "Topology must be a spec such as 'torus:4x4' or the path of a file, not ''"),
        ("nowhere", "Topology must be a spec such as"),
        ("nowhere.json", "nowhere.json: file must be readable, not No such file"),
        (Path("torus:4x4"), "torus:4x4: file must be readable"),
    ],
)
def test_a_wrong_spec_is_refused_in_one_sentence(spec, message):
    with pytest.raises(TopologyError, match=message):
        parse_topology(spec)


def test_wrong_types_of_sizes_and_specs_are_refused():
    with pytest.raises(TypeError, match="Topology must be a spec or a path, not 4"):
        parse_topology(4)
    with pytest.raises(TopologyError, match=r"Size of 'ring' must be within 2..65536, not 4.0"):
        ring(4.0)
    with pytest.raises(TopologyError, match=r"Size of 'ring' must be within 2..65536, not True"):
        ring(True)
    with pytest.raises(TopologyError, match="Sizes of 'torus' must be at least one number"):
        torus()
    assert torus(np.int64(4), np.int32(4)).name == "torus:4x4"
