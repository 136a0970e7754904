"""Symmetric schedules: at the bound, as high as the diameter, held as one tree."""

from dataclasses import replace

import networkx
import numpy as np
import pytest

from multitree import ImplicitSchedule, ScheduleError, Topology, build, parse_topology, verify
from multitree.topology.algorithms.symmetric import build_symmetric, implicit_symmetric
from multitree.topology.checks.implicit import verify_implicit
from multitree.topology.collectives import Op
from multitree.topology.families.direct import fully_connected, hypercube, ring, torus
from multitree.topology.networks.bounds import bound_steps, link_occupancy
from multitree.topology.networks.translations import translations_of
from tests.topology.graphs import over, relabelled
from tests.topology.oracles import rooted, sums

SIZES = [
    *((a, b) for a in range(2, 17) for b in range(a, 17)),
    *((a, b, c) for a in range(2, 6) for b in range(a, 6) for c in range(b, 6)),
    *((8, 8, 8), (32, 32), (4, 64), (2, 100), (3, 50), (5, 40)),
    *((4, 4, 4, 4), (3, 3, 3, 3), (2, 3, 4, 5), (16, 16, 16)),
]
TOPOLOGIES = [
    *(torus(*sizes) for sizes in SIZES),
    *(ring(size) for size in range(2, 40)),
    *(hypercube(exponent) for exponent in range(2, 11)),
    *(fully_connected(size) for size in (2, 3, 8, 60)),
]
SMALL = "torus:4x4 torus:3x5 torus:2x3x4 ring:2 ring:9 hypercube:5 full:6"


@over(*TOPOLOGIES)
def test_steps_are_the_bound_and_the_height_is_the_diameter(topology):
    report = verify_implicit(implicit_symmetric(topology))
    assert report.num_steps == 2 * bound_steps(topology)
    assert report.tree_height_hops == topology.diameter
    assert report.contention_free


@over(SMALL)
def test_sums_are_exact(topology):
    assert sums(build(topology, "symmetric"), 501, seed=3)
    rooted(topology, "symmetric", 1)


@over(
    "torus:5x6 torus:3x4x5 torus:4x4 torus:3x3 torus:2x7 torus:8x8 torus:3x3x3 mesh:2x2",
    "ring:4 ring:11 hypercube:6 full:5",
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_network_of_no_family_is_recognised(topology, seed):
    network = relabelled(topology, seed)
    report = verify(build_symmetric(network))
    assert report.num_steps == 2 * bound_steps(network)
    assert report.tree_height_hops == network.diameter
    assert report.contention_free


@pytest.mark.parametrize(
    "graph",
    [
        networkx.petersen_graph(),
        networkx.star_graph(4),
        networkx.path_graph(6),
        networkx.complete_bipartite_graph(3, 3),
        networkx.cubical_graph().subgraph(range(7)),
        networkx.random_regular_graph(4, 20, seed=5),
        networkx.circular_ladder_graph(7).to_directed().reverse(),
        networkx.moebius_kantor_graph(),
    ],
    ids=str,
)
def test_other_graphs_are_refused_or_right(graph):
    topology = Topology.from_networkx(graph)
    try:
        report = verify(build_symmetric(topology))
    except ScheduleError as error:
        assert "symmetric must have" in str(error)
    else:
        assert report.num_steps == 2 * bound_steps(topology)
        assert graph.number_of_nodes() == 14  # a prism is a cycle times two


def test_links_that_differ_from_rank_to_rank_are_refused():
    good = torus(4, 4)
    speeds = np.full(good.num_links, 16.0)
    speeds[7] = 8.0
    slow = Topology("slow", 16, 0, good.links, speeds, 150.0, "torus", (4, 4))
    with pytest.raises(ScheduleError, match="speed and latency at every rank, not"):
        build_symmetric(slow)
    double = Topology("double", 16, 0, [*good.links.tolist(), [0, 1], [1, 0]], 16.0, 150.0)
    with pytest.raises(ScheduleError, match="at every rank"):
        build_symmetric(double)


def test_parallel_links_are_directions_of_their_own():
    single = torus(4, 4)
    double = Topology("double", 16, 0, np.repeat(single.links, 2, axis=0), 16.0, 150.0)
    report = verify(build_symmetric(double))
    assert (report.num_steps, report.max_link_load) == (2 * 4, 1)  # the diameter; 15 / 8 are 2
    assert verify_implicit(implicit_symmetric(double)).contention_free


def others_slower(spec, ratio):
    """A network whose links along the last dimension are so many times faster than the others."""
    whole = parse_topology(spec)
    along_last = np.subtract.reduce(whole.links // whole.dims[-1], axis=1) == 0
    speeds = np.where(along_last, 16.0, 16.0 / ratio)
    return replace(whole, bandwidth_gbytes_per_s=speeds)


@pytest.mark.parametrize(
    ("spec", "ratio", "num_slots"),
    [
        ("torus:4x4", 2, 6),  # 6 + 6 + 3 + 3 chunks in six slots, the fewest for 15
        ("torus:8x8", 2, 22),
        ("torus:5x5", 3, 10),  # shares as first given
        ("torus:2x5x5", 2, 14),
        ("torus:2x2x2x2", 2, 7),  # shares levelled
    ],
)
def test_slow_directions_carry_less_and_all_are_causal(spec, ratio, num_slots):
    implicit = implicit_symmetric(others_slower(spec, ratio))
    held = link_occupancy(implicit.topology)[implicit.tree.route_links]
    assert (implicit.tree.step + held)[implicit.tree.op == Op.REDUCE].max() == num_slots
    report = verify(implicit.schedule())
    assert report.causal and report.contention_free
    assert verify_implicit(implicit) == report


def test_a_tree_of_fast_links_overlaps_on_slow_ones():
    slow = others_slower("torus:4x4", 2)
    tree = replace(implicit_symmetric(torus(4, 4)).tree, topology=slow)
    report = verify_implicit(ImplicitSchedule(tree, translations_of(slow)))
    assert (report.contention_free, report.max_link_load, report.causal) == (False, 1, False)


def test_too_many_rows_are_not_written_out():
    rows = 128 * 128 * 2 * (128 * 128 - 1)
    with pytest.raises(ScheduleError, match=f"at most 33554432 to be written out, not {rows}"):
        build_symmetric(torus(128, 128))
