"""Unusual networks by algorithms: each cell is proved and sums, or says why not."""

from itertools import product

import numpy as np
import pytest

from multitree import ScheduleError, Topology, among, build, dgx_a100, dragonfly, fat_tree, verify
from multitree.topology.algorithms.registry import ALGORITHMS
from multitree.topology.families.direct import hypercube, mesh, torus
from tests.topology.graphs import copy_of, random_topology, reloaded
from tests.topology.oracles import sums

SEED = 11
LOOPS = [[0, 1], [1, 2], [2, 0], [0, 3], [3, 4], [4, 0]]


def doubled(topology):
    """Every link twice."""
    counts = (topology.num_ranks, topology.num_switches)
    return Topology("doubled", *counts, np.repeat(topology.links, 2, axis=0), 16.0, 150.0)


def uneven(topology):
    """Links of three speeds, the same both ways."""
    speeds = np.random.default_rng(SEED).choice([16.0, 12.0, 5.0], topology.num_links)
    return copy_of(topology, np.minimum(speeds, speeds[topology.reverse]))


NETWORKS = {
    "boxes": dgx_a100(2),
    "boxes on one spine": dgx_a100(3, 1),
    "dragonfly": dragonfly(2, 1, 2),
    "irregular": random_topology(SEED, most_ranks=14),
    "one way": random_topology(SEED, most_ranks=14, both_directions=False),
    "two loops": Topology("two loops", 5, 0, LOOPS, 16.0, 150.0),
    "parallel links": doubled(mesh(2, 3)),
    "parallel links of switches": doubled(fat_tree(2, 2)),
    "uneven": uneven(torus(4, 4)),
    "uneven with switches": uneven(dragonfly(2, 1, 2)),
    "without links": torus(4, 4).without(links=[0, 17]),
    "without ranks": hypercube(4).without(ranks=[3, 9]),
    "without a spine": fat_tree(3, 2).without(switches=[9]),
    "boxes without a plane": dgx_a100(2).without(switches=[16], links=[6]),
    "dragonfly without a link": dragonfly(2, 1, 2).without(links=[15]),
    "some ranks": among(mesh(3, 4), [0, 2, 3, 5, 6, 9, 11], forwarding=True),
}
SLOW_FORESTS = {"boxes on one spine", "boxes without a plane"}
NO_LINKS_BACK = "must be joined by links with a reverse for a ring around a tree"
REFUSED = {
    "ring_2d": "ring_2d must have a torus or mesh of two dimensions",
    "bidirectional_ring_2d": "bidirectional_ring_2d must have a torus of two dimensions",
    "tto": "tto must have a mesh of two dimensions",
    "hdrm": "hdrm must have a BiGraph",
    "swing": "swing must have a ring or torus",
    "symmetric": "symmetric must have a ring, torus, hypercube or fully connected network",
}
ONLY_HERE = {
    ("two loops", "forest"): "must be joined by links with a reverse for trees of link pairs",
    ("one way", "forest"): "must be joined by links with a reverse for trees of link pairs",
    ("two loops", "ring"): NO_LINKS_BACK,
    ("two loops", "bidirectional_ring"): NO_LINKS_BACK,
    ("one way", "bidirectional_ring"): NO_LINKS_BACK,
    ("uneven", "symmetric"): "symmetric must have links of equal number, speed and latency",
    ("parallel links of switches", "direct"): "must have one link to the switches that join a rank",
    ("boxes without a plane", "direct"): "must have connected switches that join all 16 ranks",
    ("some ranks", "direct"): "must have connected switches that join all 7 ranks",
}
ONLY_HERE |= {
    (name, "direct"): "direct must have switches, not ranks alone"
    for name, topology in NETWORKS.items()
    if not topology.num_switches
}
ONLY_HERE |= {
    (name, "plane_rings"): reason.replace("direct", "plane_rings")
    for (name, algorithm), reason in ONLY_HERE.items()
    if algorithm == "direct"
}
ONLY_HERE |= {
    (name, "plane_rings"): "plane_rings must have planes that join all ranks, not"
    for name in ("boxes", "boxes on one spine")
}
# Of an algorithm that no line here names, each cell may be either.
NAMED = {"multitree", "double_tree", "halving_doubling", *REFUSED, *(each for _, each in ONLY_HERE)}


def _cells():
    """Algorithm and network; a forest over many switches takes a minute."""
    for algorithm, name in product(ALGORITHMS, NETWORKS):
        takes_a_minute = algorithm == "forest" and name in SLOW_FORESTS
        mark = pytest.mark.long if takes_a_minute else pytest.mark.slow
        yield pytest.param(algorithm, name, marks=mark, id=f"{algorithm}-{name}")


@pytest.mark.dear
@pytest.mark.every_set
@pytest.mark.parametrize(("algorithm", "name"), tuple(_cells()))
def test_each_cell_is_a_schedule_that_sums_or_an_error_that_says_why(name, algorithm, tmp_path):
    reason = ONLY_HERE.get((name, algorithm), REFUSED.get(algorithm))
    network = NETWORKS[name]
    for topology in (network, reloaded(network, tmp_path / "network.json")):
        if reason is not None:
            with pytest.raises(ScheduleError) as refused:
                build(topology, algorithm)
            assert reason in str(refused.value) and repr(topology.name) in str(refused.value)
            continue
        try:
            schedule = build(topology, algorithm)
        except ScheduleError as refused:
            assert algorithm not in NAMED and repr(topology.name) in str(refused)
            continue
        report = verify(schedule)
        assert (report.contention_free and report.causal) or algorithm != "multitree"
        assert sums(schedule, seed=SEED)
