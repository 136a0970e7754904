"""Groups of ranks: who is in them, on which links, and when they are refused."""

import numpy as np
import pytest

from multitree import JobError, ScheduleError, Topology, build, parse_topology, torus
from multitree.sim.jobs.groups import Placement, rank_groups


def test_every_rank_is_in_one_group_of_each_kind_and_two_groups_share_one_rank():
    for num_ranks, size in [(8, 2), (12, 3), (6, 6), (5, 1)]:
        found = rank_groups(num_ranks, size)
        for groups in found.values():
            assert sorted(rank for group in groups for rank in group) == list(range(num_ranks))
        pairs = [set(a) & set(b) for a in found["tensor"] for b in found["data"]]
        assert all(len(both) == 1 for both in pairs)
        assert all(list(group) == sorted(group) for group in found["tensor"])
        assert {np.ptp(group) for group in found["tensor"]} == {size - 1}


def test_ranks_that_are_no_multiple_of_a_group_are_refused():
    with pytest.raises(JobError, match="must be a multiple of the 3 of a tensor-parallel group"):
        rank_groups(8, 3)


def schedules(network):
    return build(network.topology, "multitree")


def test_rows_and_columns_of_a_torus_are_rings_on_links_of_their_own():
    placement = Placement(torus(4, 4), 4)
    rows, columns = (placement.networks(kind) for kind in ("tensor", "data"))
    for networks in (rows, columns):
        (network,) = networks
        assert network.groups == (0, 1, 2, 3)
        assert (network.topology.num_ranks, network.topology.num_links) == (4, 8)
    used = {kind: placement.used_links(kind, schedules) for kind in ("tensor", "data")}
    tensor, data = (np.concatenate(list(each.values())) for each in used.values())
    assert len(np.unique(np.r_[tensor, data])) == len(tensor) + len(data) == torus(4, 4).num_links
    ends = torus(4, 4).links[used["tensor"][2]]
    assert set(ends.ravel().tolist()) == set(range(8, 12))


@pytest.mark.parametrize("spec", ["torus:4x4", "dgx_a100:2x2"])
def test_one_group_of_all_ranks_has_the_whole_network(spec):
    whole = parse_topology(spec)
    (network,) = Placement(whole).networks("data")
    assert network.topology is whole and network.links[0].tolist() == list(range(whole.num_links))
    assert Placement(whole).networks("tensor") == ()


def test_boxes_of_gpus_and_their_rails_are_networks_of_their_own():
    placement = Placement(parse_topology("dgx_a100:4"), 8)
    (box,), rails = placement.networks("tensor"), placement.networks("data")
    assert box.groups == (0, 1, 2, 3) and box.topology.num_switches == 6
    assert sorted(group for each in rails for group in each.groups) == list(range(8))
    assert {each.topology.num_switches for each in rails} == {1}
    both = [placement.used_links(kind, schedules) for kind in ("tensor", "data")]
    links = np.concatenate([each for used in both for each in used.values()])
    assert len(links) == len(np.unique(links))


def test_groups_that_are_not_connected_without_others_are_refused():
    with pytest.raises(
        JobError, match=r"torus:4x4: data-parallel groups of 8 .* group 0 \(ranks 0, 2, 4, \.\.\.\)"
    ):
        Placement(torus(4, 4), 2).networks("data")
    assert len(Placement(torus(4, 4), 2).networks("tensor")) == 1
    sizes = "tensor-parallel groups of 2 or 8 ranks fill whole dimensions"
    with pytest.raises(JobError, match=sizes):
        Placement(torus(3, 4, 2), 4).networks("data")
    for size in (2, 8):
        placement = Placement(torus(3, 4, 2), size)
        assert all(placement.networks(kind) for kind in ("tensor", "data"))


def test_groups_that_share_a_link_are_refused_by_its_name():
    placement = Placement(parse_topology("fat_tree:4x2"), 2)
    assert placement.used_links("tensor", schedules)
    with pytest.raises(ScheduleError, match=r"groups 0 and 1 share link \d+ \(\d+ -> \d+\)"):
        placement.used_links("data", schedules)


def test_groups_on_unequal_links_have_networks_of_their_own():
    whole = torus(4, 4)
    speeds = np.where(whole.links.max(axis=1) < 4, 8.0, 16.0)
    slow = Topology("slow row", 16, 0, whole.links, speeds, 150.0)
    assert [each.groups for each in Placement(slow, 4).networks("tensor")] == [(0,), (1, 2, 3)]
