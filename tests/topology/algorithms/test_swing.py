"""Swing: partners on alternate sides, on all links of a torus at once."""

import numpy as np
import pytest

from multitree import ScheduleError, hypercube, mesh, ring, torus, verify
from multitree.topology.algorithms.halving_doubling import build_swing, swing_partners
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import phase_of
from tests.topology.oracles import does_its_collective

TOPOLOGIES = [ring(2), ring(8), ring(16), torus(4, 4), torus(2, 4), torus(8, 4), torus(2, 2, 4)]


def test_distances_are_1_minus_1_3_minus_5_and_mirrored_the_other_way():
    for way in (1, -1):
        partners = swing_partners([64], first_dimension=0, way=way)
        for exchange, distance in enumerate((1, -1, 3, -5, 11, -21)):
            assert partners[exchange, 10] == (10 + way * distance) % 64
            assert partners[exchange, 11] == (11 - way * distance) % 64
            assert (partners[exchange, partners[exchange]] == np.arange(64)).all()


def test_exchanges_go_around_the_dimensions_that_have_some_left():
    def axes(first):
        partners = swing_partners([2, 16, 4], first_dimension=first, way=1)
        there, here = (np.unravel_index(p, (2, 16, 4)) for p in (partners[:, 0], 0))
        return np.argmax([a != b for a, b in zip(there, here, strict=True)], axis=0).tolist()

    assert axes(0) == [0, 1, 2, 1, 2, 1, 1]
    assert axes(2) == [2, 0, 1, 2, 1, 1, 1]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.name)
def test_a_phase_takes_n_minus_1_steps_and_sums_everything(topology):
    num_ranks, num_kinds = topology.num_ranks, 2 * len(topology.dims)
    schedule = build_swing(topology)
    report = verify(schedule)
    assert (schedule.steps_reduce_scatter, schedule.steps_all_gather) == (num_ranks - 1,) * 2
    assert schedule.num_flows == num_kinds * num_ranks
    assert report.max_messages_per_rank == 2 * num_kinds * (num_ranks - 1)
    assert does_its_collective(schedule)
    rooted = phase_of(build_swing(topology, roots=[1]), "reduce")
    assert rooted.num_flows == num_kinds and does_its_collective(rooted)
    assert rooted.num_steps == num_ranks.bit_length() - 1


@pytest.mark.parametrize("dims", [(4, 4), (4, 8), (4, 4, 4)])
def test_in_the_first_exchanges_every_link_of_the_torus_carries_one_message(dims):
    schedule = build_swing(torus(*dims))
    hops = np.diff(schedule.route_offsets)
    for step in range(schedule.topology.num_ranks // 2):
        rows = np.flatnonzero(schedule.step == step)
        assert (hops[rows] == 1).all()
        links = schedule.route_links[schedule.route_offsets[rows]]
        assert sorted(links.tolist()) == list(range(schedule.topology.num_links))


@pytest.mark.parametrize(("num_ranks", "load"), [(4, 1), (8, 3), (16, 5), (32, 11)])
def test_on_a_ring_the_farthest_partners_load_a_link_with_their_distance(num_ranks, load):
    report = verify(build_swing(ring(num_ranks)))
    assert (report.max_link_load, report.contention_free) == (load, load == 1)


def test_sums_of_the_mirrored_kind_go_the_other_way_around():
    schedule = build_swing(ring(8))
    for kind, even_goes in ((0, 1), (1, -1)):
        rows = (schedule.step < 4) & (schedule.flow % 2 == kind) & (schedule.op == Op.REDUCE)
        even = rows & (schedule.src % 2 == 0)
        assert ((schedule.dst[even] - schedule.src[even]) % 8 == even_goes % 8).all()


@pytest.mark.parametrize("topology", [ring(6), torus(4, 6), mesh(4, 4), hypercube(4)])
def test_other_networks_are_refused_by_name(topology):
    with pytest.raises(ScheduleError, match=f"sides are powers of two, not '{topology.name}'"):
        build_swing(topology)
