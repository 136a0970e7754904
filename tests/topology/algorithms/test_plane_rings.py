"""Rings on all switch planes at once fill every link of a rank."""

import numpy as np
import pytest

from multitree import ScheduleError, build, dgx_a100, torus, verify
from multitree.sim.analytic.engine import analytic
from multitree.topology.algorithms.rings import build_plane_rings, build_ring
from multitree.topology.families.switched import bigraph, dgx2, fat_tree
from tests.topology.graphs import planes_of
from tests.topology.oracles import does_its_collective


@pytest.mark.parametrize("topology", [dgx2(), planes_of(5, 3)], ids=lambda t: t.name)
def test_every_link_of_every_rank_carries_a_chunk_in_every_step(topology):
    schedule = build_plane_rings(topology)
    report = verify(schedule)
    num_ranks, degree = topology.num_ranks, int(topology.degree[0])
    assert report.contention_free and does_its_collective(schedule)
    assert schedule.num_flows == num_ranks * degree
    assert schedule.steps_reduce_scatter == schedule.steps_all_gather == num_ranks - 1
    for end in (0, 1):
        of_ranks = np.flatnonzero(topology.links[:, end] < num_ranks)
        loads = np.bincount(schedule.route_links, minlength=topology.num_links)[of_ranks]
        assert (loads == 2 * (num_ranks - 1)).all()


@pytest.mark.parametrize("topology", [fat_tree(3, 4), bigraph(2, 4)], ids=lambda t: t.name)
def test_over_one_plane_it_is_the_ring(topology):
    planes, ring = build_plane_rings(topology), build_ring(topology)
    for column in ("step", "op", "flow", "src", "dst", "route_links", "route_classes"):
        assert np.array_equal(getattr(planes, column), getattr(ring, column)), column


def test_large_buffers_come_to_the_bound_which_one_ring_misses_by_the_planes():
    topology, num_flits = planes_of(8, 3), 1 << 20
    bound = 2 * 7 / (8 * 3) * num_flits
    assert bound < analytic(build_plane_rings(topology), num_flits).cycles < 1.03 * bound
    assert analytic(build_ring(topology), num_flits).cycles > 2.9 * bound


def test_rooted_collectives_go_once_around_on_every_plane():
    schedule = build(planes_of(4, 3), "plane_rings", "reduce", 2)
    assert (schedule.num_flows, schedule.num_steps) == (3, 3)
    assert verify(schedule).contention_free and does_its_collective(schedule)


def test_boxes_and_ranks_alone_are_refused_by_name():
    with pytest.raises(ScheduleError, match=r"'dgx_a100:2': plane_rings must .* not 2 boxes"):
        build_plane_rings(dgx_a100(2))
    with pytest.raises(ScheduleError, match=r"'torus:4x4': plane_rings must have switches"):
        build_plane_rings(torus(4, 4))
