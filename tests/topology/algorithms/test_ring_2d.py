"""2D rings use all rings of a torus, one chunk per link and step."""

import numpy as np
import pytest

from multitree.topology.algorithms.build import build
from multitree.topology.algorithms.ring_2d import build_bidirectional_ring_2d, build_ring_2d
from multitree.topology.checks.verify import verify
from multitree.topology.collectives import Op
from multitree.topology.errors import ScheduleError
from multitree.topology.families.direct import fully_connected, mesh, ring, torus
from tests.topology.oracles import does_its_collective

SIDES = [(4, 4), (2, 2), (2, 5), (3, 5), (5, 3), (6, 4)]
KINDS = {"ring_2d": 2, "bidirectional_ring_2d": 4}


def moves(schedule, rows):
    """What each row adds to the two coordinates, as -1, 0 or 1."""
    dims = schedule.topology.dims
    src, dst = (np.stack(np.unravel_index(end[rows], dims)) for end in (schedule.src, schedule.dst))
    by = (dst - src) % np.array(dims)[:, None]
    return np.where(by > 1, -1, by)


@pytest.mark.parametrize("algorithm", KINDS)
@pytest.mark.parametrize("dims", SIDES)
def test_a_phase_takes_n_minus_1_steps_and_what_the_longer_side_adds(dims, algorithm):
    if algorithm == "bidirectional_ring_2d" and min(dims) < 3:
        return
    topology = torus(*dims)
    schedule = build(topology, algorithm)
    report = verify(schedule)
    steps = topology.num_ranks - 1 + max(dims) - min(dims)
    assert (schedule.steps_reduce_scatter, schedule.steps_all_gather) == (steps, steps)
    assert report.contention_free
    assert report.num_messages == 2 * KINDS[algorithm] * topology.num_ranks * (
        topology.num_ranks - 1
    )
    assert report.max_messages_per_rank * topology.num_ranks == report.num_messages
    assert report.tree_height_hops == sum(dims) - 2
    assert does_its_collective(schedule)


def test_kinds_of_flows_differ_in_the_first_dimension_and_in_the_way_around():
    schedule = build_bidirectional_ring_2d(torus(3, 4))
    first = {Op.REDUCE: [1, 0], Op.GATHER: [0, 1]}
    for kind, way in enumerate((1, 1, -1, -1)):
        for op in (Op.REDUCE, Op.GATHER):
            rows = np.flatnonzero((schedule.flow == 4 * 5 + kind) & (schedule.op == op))
            taken = moves(schedule, rows)
            assert set(taken.ravel().tolist()) == {0, way}
            opening = np.abs(taken[:, schedule.step[rows] == schedule.step[rows].min()])
            axis = first[op][kind % 2]
            assert (opening[axis] == 1).all() and (opening[1 - axis] == 0).all()
    one_way = build_ring_2d(torus(3, 4))
    assert set(moves(one_way, np.arange(one_way.num_transfers)).ravel().tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("algorithm", "links_per_rank"), [("ring_2d", 2), ("bidirectional_ring_2d", 4)]
)
def test_on_a_square_torus_every_rank_sends_over_as_many_links_in_every_step(
    algorithm, links_per_rank
):
    schedule = build(torus(4, 4), algorithm)
    assert (np.bincount(schedule.step) == 16 * links_per_rank).all()


def test_what_goes_around_a_row_came_a_whole_column_of_steps_before_and_so_does_what_turns():
    schedule = build_bidirectional_ring_2d(torus(4, 4))
    arrived = np.full((schedule.num_flows, 16), -schedule.num_steps)
    slack = np.full(schedule.num_steps, 2 * schedule.num_steps)
    columns = (schedule.flow, schedule.src, schedule.dst, schedule.step)
    for flow, src, dst, step in zip(*(column.tolist() for column in columns), strict=True):
        slack[step] = min(slack[step], step - arrived[flow, src])
        arrived[flow, dst] = step
    assert slack[4:].tolist() == [4] * 9 + [1] * 5 + [4] * 12


@pytest.mark.parametrize("algorithm", KINDS)
def test_rooted_collectives_go_along_one_row_then_along_all_columns(algorithm):
    for collective in ("broadcast", "reduce"):
        schedule = build(torus(3, 5), algorithm, collective, 7)
        assert schedule.num_flows == KINDS[algorithm]
        assert schedule.num_steps == 2 * (5 - 1)
        assert verify(schedule).contention_free and does_its_collective(schedule)
    twice = build_bidirectional_ring_2d(torus(3, 4), roots=[7, 7, 2])
    assert verify(twice).contention_free and does_its_collective(twice)


@pytest.mark.parametrize("builder", [build_ring_2d, build_bidirectional_ring_2d])
@pytest.mark.parametrize(
    "topology", [ring(9), torus(3, 3, 3), mesh(4, 4), mesh(2, 3), fully_connected(9)]
)
def test_what_has_no_rings_in_two_dimensions_is_refused_by_name(topology, builder):
    with pytest.raises(ScheduleError, match=f"rows and columns are rings, not '{topology.name}'"):
        builder(topology)


def test_a_ring_of_two_has_one_way_around():
    with pytest.raises(ScheduleError, match=r"sides of at least 3, .* not 'torus:2x4'"):
        build_bidirectional_ring_2d(torus(2, 4))
    assert build_ring_2d(mesh(2, 2)).hash == build_ring_2d(torus(2, 2)).hash
