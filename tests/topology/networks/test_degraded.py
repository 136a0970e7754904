"""Networks that have lost links or nodes: what is left, and that it still works."""

import numpy as np
import pytest

from multitree import Topology, TopologyError, build, execute, parse_topology, torus, verify


def test_a_failed_link_takes_its_reverse_and_nothing_else():
    whole = torus(4, 4)
    left = whole.without(links=[5])
    gone = {5, int(whole.reverse[5])}
    kept = [link for link in range(whole.num_links) if link not in gone]
    assert (left.links == whole.links[kept]).all()
    assert (left.family, left.num_ranks) == ("custom", 16)
    assert left.name == f"torus:4x4 without links {', '.join(map(str, sorted(gone)))}"


def test_a_failed_rank_takes_its_links_and_those_left_keep_their_order():
    speeds = np.arange(1.0, 65.0)
    base = torus(4, 4)
    whole = Topology("uneven", 16, 0, base.links, speeds, speeds[::-1])
    left = whole.without(ranks=[6, 2])
    old = [rank for rank in range(16) if rank not in (2, 6)]
    kept = np.isin(whole.links, old).all(axis=1)
    assert (np.array(old)[left.links] == whole.links[kept]).all()
    assert (left.bandwidth_gbytes_per_s == speeds[kept]).all()
    assert (left.latency_ns == speeds[::-1][kept]).all()


def test_a_failed_switch_leaves_the_ranks_numbers_alone():
    whole = parse_topology("fat_tree:2x2")
    left = whole.without(switches=[whole.num_nodes - 1])
    assert (left.num_ranks, left.num_switches) == (4, whole.num_switches - 1)
    assert verify(build(left, "multitree")).max_link_load >= 1


@pytest.mark.parametrize(
    ("spec", "lost"),
    [
        ("torus:4x4", {"links": [3]}),
        ("torus:4x4", {"ranks": [5]}),
        ("torus:4x4", {"links": [0, 17], "ranks": [9, 10]}),
        ("mesh:3x3", {"ranks": [4]}),
        ("hypercube:4", {"links": range(0, 64, 9)}),
        ("bigraph:2x4", {"links": [23]}),
    ],
)
@pytest.mark.parametrize("algorithm", ["multitree", "ring", "double_tree", "halving_doubling"])
def test_every_algorithm_plans_anew_and_sums_what_is_left(spec, lost, algorithm):
    left = parse_topology(spec).without(**lost)
    schedule = build(left, algorithm)
    verify(schedule)
    buffers = np.random.default_rng(4).integers(-(2**31), 2**31, (left.num_ranks, 99), np.int32)
    assert (execute(schedule, buffers) == buffers.sum(axis=0, dtype=np.int32)).all()


def test_what_falls_apart_or_is_not_there_is_refused_by_name():
    ring = parse_topology("ring:4")
    with pytest.raises(TopologyError, match=r"'ring:4 without links 0, 3, 4, 7' must be reachable"):
        ring.without(links=[0, 4])
    with pytest.raises(TopologyError, match=r"Link must be within 0\.\.7, not 8"):
        ring.without(links=[8])
    with pytest.raises(TopologyError, match=r"Rank must be within 0\.\.3, not -1"):
        ring.without(ranks=[-1])
    with pytest.raises(TopologyError, match="Switch must be absent, having none, not 4"):
        ring.without(switches=[4])
    with pytest.raises(TopologyError, match=r"Switch must be within 4\.\.7, not 3"):
        parse_topology("fat_tree:2x2").without(switches=[3])
    with pytest.raises(TopologyError, match=r"Link must be a number, not 1\.0"):
        ring.without(links=[1.0])
    with pytest.raises(TopologyError, match="Rank must be a number, not True"):
        ring.without(ranks=[True])
    with pytest.raises(TopologyError, match="Number of ranks must be within 2"):
        ring.without(ranks=[0, 1, 2])
