"""Tests of interfaces whose messages differ in class one behind the other, in RTL."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from multitree import build, dragonfly, parse_topology, verify
from multitree.topology.lowering import with_header_only_phase
from tests.sim.emulated import checked, normals, switched_session


def half_slow(seed):
    """An all-reduce on a dragonfly of which a random half of the links takes two cycles a flit."""
    topology = dragonfly(2, 1, 1)
    slow = np.random.default_rng(seed).permutation(topology.num_links) < topology.num_links // 2
    near = np.full(topology.num_links, 20.0)
    speeds = np.where(slow, 8.0, 16.0)
    return build(replace(topology, bandwidth_gbytes_per_s=speeds, latency_ns=near), "multitree")


@cache
def reduce_in_class_1():
    """Contributions in class 1; the heads of the header-only phase behind them are in class 0."""
    topology = parse_topology("fat_tree:2x2")
    near = replace(topology, latency_ns=np.full(topology.num_links, 20.0))
    schedule = build(near, "multitree", "reduce", root=2)
    return replace(schedule, route_classes=np.ones_like(schedule.route_classes))


def first_classes(schedule):
    """The class of the first hop of each row, with the rows that shared links add."""
    rows = with_header_only_phase(schedule)
    return rows.src, rows.route_classes[rows.route_offsets[:-1]]


CASES = {f"seed {seed}": (half_slow, seed) for seed in range(5)} | {"reduce": (reduce_in_class_1,)}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", [6, 200])
def test_classes_that_mix_at_an_interface_give_exact_results(case, count):
    make, *seed = CASES[case]
    schedule = make(*seed)
    verify(schedule)
    sources, classes = first_classes(schedule)
    assert any(len(set(classes[sources == rank])) == 2 for rank in set(sources))
    with switched_session(schedule.topology) as session:
        checked(session, schedule, normals(schedule, count, 2, seed=3))
