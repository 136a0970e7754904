"""Drawings: nodes apart, links around nodes, wrap links seen, the same every time."""

import itertools
from dataclasses import replace

import networkx
import numpy as np
import pytest

from multitree import Topology, parse_topology
from multitree.host.view.layout import lanes_of
from multitree.host.view.placement import layout_of

FAMILIES = [
    *("ring:2", "ring:9", "torus:8", "mesh:7", "mesh:40", "torus:4x4", "torus:2x5", "mesh:5x3"),
    *("torus:3x3x3", "mesh:2x3x4", "hypercube:1", "hypercube:3", "full:5", "fat_tree:4x4"),
    *("fat_tree:8x8", "fat_tree:3x1", "kary_tree:4x3", "kary_tree:2x2x2", "bigraph:4x16"),
    *("bigraph:1x2", "dgx2", "dgx_a100:2", "dgx_a100:3x1", "dragonfly:4x2x2", "dragonfly:2x1x1"),
]
NESTED = ["hypercube:6", "torus:3x3x3x3", "mesh:2x2x2x2x2"]


def custom(spec):
    """A network of no family, as one that is read from a file."""
    return replace(parse_topology(spec), family="custom", dims=(), name="a file")


def places_of(layout):
    return np.stack([layout.x, layout.y], axis=1)


def apart(layout):
    """Distances from the centre of each node to that of each."""
    return np.hypot(*(places_of(layout)[:, None] - places_of(layout)).transpose(2, 0, 1))


def distances(layout):
    """Between the centres of any two different nodes."""
    return apart(layout)[~np.eye(len(layout.x), dtype=bool)]


def pieces(topology, layout, link):
    """The straight pieces of a link's line before corners are rounded off."""
    src, dst = topology.links[link]
    ends = [(layout.x[node], layout.y[node]) for node in (src, dst)]
    curve = layout.curves.get(link)
    if curve is not None and curve.is_stub:
        return [(ends[0], curve.points[0]), (curve.points[1], ends[1])]
    corners = () if curve is None else curve.points
    return list(itertools.pairwise([ends[0], *corners, ends[1]]))


def clearance(topology, layout):
    """Smallest distance from any link to the centre of a node that is none of its ends."""
    places, least = places_of(layout), np.inf
    for link, ends in enumerate(topology.links.tolist()):
        others = np.delete(places, ends, axis=0)
        if not len(others):
            continue
        for start, end in pieces(topology, layout, link):
            start, along = np.array(start), np.array(end) - np.array(start)
            part = np.clip((others - start) @ along / (along @ along), 0, 1)
            far = np.hypot(*(start + part[:, None] * along - others).T)
            least = min(least, far.min())
    return least


@pytest.mark.every_set
@pytest.mark.parametrize("spec", FAMILIES + NESTED)
def test_nodes_do_not_touch_and_links_run_around_them(spec):
    topology = parse_topology(spec)
    layout = layout_of(topology)
    assert distances(layout).min() > 2 * layout.radius
    assert spec in NESTED or clearance(topology, layout) > layout.radius


@pytest.mark.parametrize("spec", ["torus:4x5", "fat_tree:2x2", "dragonfly:2x1x1"])
def test_equal_topologies_have_equal_drawings(spec):
    for made in (parse_topology, custom):
        one, other = (layout_of(made(spec)) for _ in range(2))
        assert (one.x == other.x).all() and (one.y == other.y).all()
        assert one.curves == other.curves and one.radius == other.radius


def test_a_grid_has_ranks_row_by_row_and_wraps_by_stubs():
    topology = parse_topology("torus:3x4")
    layout = layout_of(topology)
    assert layout.x.tolist() == [0, 1, 2, 3] * 3
    assert layout.y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    wraps = {
        link
        for link, (src, dst) in enumerate(topology.links.tolist())
        if abs(layout.x[src] - layout.x[dst]) + abs(layout.y[src] - layout.y[dst]) > 1
    }
    assert len(wraps) == 2 * (3 + 4)
    assert set(layout.curves) == wraps
    assert all(curve.is_stub for curve in layout.curves.values())
    (to_left,) = [k for k in wraps if topology.links[k].tolist() == [3, 0]]
    out, back = layout.curves[to_left].points
    assert out[0] > 3 and back[0] < 0 and out[1] == back[1] == 0


def test_layers_of_a_solid_grid_are_joined_by_slanted_links_and_bows():
    topology = parse_topology("torus:3x4x5")
    layout = layout_of(topology)
    for link, (src, dst) in enumerate(topology.links.tolist()):
        layers, curve = abs(src - dst) // 20, layout.curves.get(link)
        if layers:
            slant = np.array([layout.x[dst] - layout.x[src], layout.y[dst] - layout.y[src]])
            assert np.isclose(slant[0], -slant[1])
            assert (curve is None) == (layers == 1) and not (curve and curve.is_stub)
        else:
            assert curve is None or curve.is_stub


def test_bows_between_blocks_that_run_in_parallel_differ():
    topology = parse_topology("mesh:3x2x3x3")
    layout = layout_of(topology)
    heights = [
        layout.curves[link].points[1][1]
        for link, (src, dst) in enumerate(topology.links.tolist())
        # From block to block across, out of the first row of the first block.
        if src < 3 and dst - src == 9
    ]
    assert len(set(heights)) == len(heights) == 3


def test_switches_stand_above_their_ranks():
    fat = layout_of(parse_topology("fat_tree:4x4"))
    ranks, leaves, spines = fat.y[:16], fat.y[16:20], fat.y[20:]
    assert ranks.min() > leaves.max() > spines.max()
    assert np.allclose(fat.x[16:20], fat.x[:16].reshape(4, 4).mean(axis=1))
    dgx = layout_of(parse_topology("dgx2"))
    assert dgx.y[:8].max() < dgx.y[16:22].min() < dgx.y[22:].max() < dgx.y[8:16].min()


def test_lanes_are_to_the_right_and_of_parallel_links_apart():
    assert set(lanes_of(parse_topology("torus:3x3")).tolist()) == {0.5}
    dgx = parse_topology("dgx2")
    between = (dgx.links >= 16).all(axis=1) & (dgx.links[:, 0] == 16)
    assert sorted(lanes_of(dgx)[between].tolist()) == [k + 0.5 for k in range(8)]
    one_way = Topology("ring", 3, 0, [[0, 1], [1, 2], [2, 0], [0, 1]], 16.0, 150.0)
    assert lanes_of(one_way).tolist() == [-0.5, 0.0, 0.0, 0.5]


@pytest.mark.parametrize("spec", ["mesh:6x6", "ring:12", "fat_tree:4x4", "hypercube:3"])
def test_without_a_family_neighbours_are_near_and_others_far(spec):
    topology = custom(spec)
    layout = layout_of(topology)
    hops = np.stack([topology.hop_distances(node) for node in range(topology.num_nodes)])
    far = apart(layout)
    assert np.median(far[hops == hops.max()]) > 1.8 * np.median(far[hops == 1])
    assert distances(layout).min() > 2 * layout.radius


def test_a_grid_of_no_family_stands_upright():
    layout = layout_of(custom("mesh:4x6"))
    assert np.ptp(layout.x) > np.ptp(layout.y)
    assert layout.x[0] < np.median(layout.x) and layout.y[0] < np.median(layout.y)
    dx, dy = (np.abs(np.diff(axis[np.array([0, 5])])[0]) for axis in (layout.x, layout.y))
    assert min(dx, dy) < 0.1 * max(dx, dy)


GRAPHS = {
    "pair": networkx.path_graph(2),
    "star": networkx.star_graph(7),
    "one_way": networkx.cycle_graph(5, create_using=networkx.DiGraph),
    "complete": networkx.complete_graph(6),
    "petersen": networkx.petersen_graph(),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_any_graph_can_be_drawn(name):
    layout = layout_of(Topology.from_networkx(GRAPHS[name], name="any"))
    for axis in (layout.x, layout.y):
        assert axis[0] <= axis.mean() + 1e-6, "node 0 must be to the upper left"
    assert np.isfinite(layout.x).all() and np.isfinite(layout.y).all()
    assert distances(layout).min() > 2 * layout.radius


def test_a_network_of_more_nodes_than_are_moved_is_drawn():
    layout = layout_of(custom("mesh:35x30"))
    assert len(layout.x) == 1050
    assert np.median(distances(layout)) > 8
