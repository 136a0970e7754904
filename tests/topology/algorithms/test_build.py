"""Every algorithm on every family: a schedule that is right, or why none."""

import numpy as np
import pytest

from multitree import ScheduleError, build, parse_topology, verify
from multitree.topology.algorithms.registry import ALGORITHMS, COMPARED
from multitree.topology.collectives import COLLECTIVES, ROOTED
from tests.topology.graphs import named, over, random_topology, star
from tests.topology.oracles import does_its_collective, sums

SEED = 5
TOPOLOGIES = [
    "ring:2 ring:6 torus:3x4 torus:4x4 torus:2x2x3 mesh:3x3 hypercube:3 full:5",
    "fat_tree:3x2 kary_tree:2x3 bigraph:2x4 dgx2 dgx_a100:2 dragonfly:2x1x1",
    *(star(3), random_topology(SEED)),
]
BASELINES = [algorithm for algorithm in ALGORITHMS if algorithm != "multitree"]
EVERYWHERE = ("ring", "bidirectional_ring", "double_tree", "halving_doubling", "forest")
ONE_FLOW_PER_RANK = ("ring", "halving_doubling", "hdrm", "symmetric")
ONE_PLANE = {"fat_tree:3x2", "kary_tree:2x3", "bigraph:2x4", "dragonfly:2x1x1", "star"}
THREE_TORI = {"torus:3x4", "torus:4x4", "torus:2x2x3"}
ONLY = {
    "direct": {*ONE_PLANE, "dgx2", "dgx_a100:2"},
    "plane_rings": {*ONE_PLANE, "dgx2"},
    "ring_2d": {"torus:3x4", "torus:4x4", "mesh:3x3"},
    "tto": {"mesh:3x3"},
    "bidirectional_ring_2d": {"torus:3x4", "torus:4x4"},
    "hdrm": {"bigraph:2x4"},
    "swing": {"ring:2", "torus:4x4"},
    "symmetric": {"ring:2", "ring:6", *THREE_TORI, "hypercube:3", "full:5"},
}


def has_one_flow_per_rank(algorithm, topology):
    if algorithm not in {*EVERYWHERE, *ONLY}:
        return sorted(build(topology, algorithm).flow_roots) == [*range(topology.num_ranks)]
    if algorithm in ("direct", "plane_rings"):
        return topology.name in ONE_PLANE
    return algorithm in ONE_FLOW_PER_RANK


def is_there(algorithm, topology):
    """By the tables above; where they lack an algorithm, what it refuses it must refuse by name."""
    if algorithm in {*EVERYWHERE, *ONLY}:
        return algorithm in EVERYWHERE or topology.name in ONLY[algorithm]
    try:
        return bool(build(topology, algorithm))
    except ScheduleError:
        return False


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.every_set
@over(*TOPOLOGIES)
@pytest.mark.parametrize("algorithm", BASELINES)
def test_a_schedule_is_right_or_the_error_names_the_topology(algorithm, topology):
    if not is_there(algorithm, topology):
        for collective in COLLECTIVES:
            with pytest.raises(ScheduleError, match=f"'{topology.name}'"):
                build(topology, algorithm, collective, 1 if collective in ROOTED else None)
        return
    for collective in COLLECTIVES:
        phase = collective in ("reduce_scatter", "all_gather")
        if phase and not has_one_flow_per_rank(algorithm, topology):
            with pytest.raises(ScheduleError, match="must have one flow rooted at each rank"):
                build(topology, algorithm, collective)
            continue
        root = topology.num_ranks - 1 if collective in ROOTED else None
        schedule = build(topology, algorithm, collective, root)
        verify(schedule)
        assert (schedule.algorithm, schedule.root) == (algorithm, root)
        assert does_its_collective(schedule), collective


OTHERS = (
    ("hdrm", "powers of two of .*, not", "torus:4x4 fat_tree:4x4 bigraph:3x4 bigraph:4x6"),
    ("swing", "sides are powers of two, not", "ring:6 torus:4x6 mesh:4x4 hypercube:4"),
    ("tto", "sides of at least 3, not", "mesh:2x8 mesh:9 mesh:3x3x3 torus:4x4 ring:9 hypercube:4"),
    ("ring_2d", "of two dimensions .* not", "ring:9 torus:3x3x3 mesh:4 mesh:2x2x2 full:9"),
    ("bidirectional_ring_2d", "of two dimensions .* not", "mesh:4x4 torus:2x4 ring:9"),
)


@pytest.mark.every_set
@pytest.mark.parametrize(("algorithm", "says", "specs"), OTHERS)
def test_other_networks_are_refused_by_name(algorithm, says, specs):
    for spec in specs.split():
        with pytest.raises(ScheduleError, match=f"{says} '{spec}'"):
            build(parse_topology(spec), algorithm)


@pytest.mark.parametrize("algorithm", BASELINES)
def test_int32_sums_are_numpys(algorithm):
    for topology in named("torus:4x4 bigraph:2x4 full:6"):
        if is_there(algorithm, topology):
            schedule = build(topology, algorithm)
            for length in (0, 1, 777):
                assert sums(schedule, length, seed=length), f"{topology.name}, {length}"


def test_a_table_has_at_most_a_few_hundred_rows_at_64_ranks():
    most = {"ring": 126, "halving_doubling": 126, "symmetric": 126, "double_tree": 128, "forest": 4}
    most |= {"bidirectional_ring": 252, "ring_2d": 252, "bidirectional_ring_2d": 504, "swing": 504}
    for algorithm, rows in most.items():
        schedule = build(parse_topology("torus:8x8"), algorithm)
        assert np.bincount(schedule.src).max() == rows, algorithm


def test_what_is_compared_takes_one_hop_where_links_make_a_circle_of_all_ranks():
    for topology in named("torus:3x4 mesh:3x4 hypercube:3"):
        for algorithm in COMPARED:
            assert (np.diff(build(topology, algorithm).route_offsets) == 1).all()
