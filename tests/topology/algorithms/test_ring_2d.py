"""2D rings use all rings of a torus, or lines of a mesh, a chunk per link, step."""

import itertools

import numpy as np
import pytest

from multitree import build, mesh, torus, verify
from multitree.sim.analytic.engine import analytic
from multitree.topology.algorithms.registry import ALGORITHMS
from multitree.topology.algorithms.ring_2d import build_bidirectional_ring_2d, build_ring_2d
from multitree.topology.collectives import Op
from tests.topology.graphs import by_hand, rows_of
from tests.topology.oracles import does_its_collective, rooted

SIDES = [(4, 4), (2, 2), (2, 5), (3, 5), (5, 3), (6, 4)]
KINDS = {"ring_2d": 2, "bidirectional_ring_2d": 4}
FAMILIES = [("ring_2d", torus), ("ring_2d", mesh), ("bidirectional_ring_2d", torus)]


def moves(schedule, rows):
    """What each row adds to the two coordinates, as -1, 0 or 1."""
    dims = schedule.topology.dims
    src, dst = (np.stack(np.unravel_index(end[rows], dims)) for end in (schedule.src, schedule.dst))
    by = (dst - src) % np.array(dims)[:, None]
    return np.where(by > 1, -1, by)


@pytest.mark.parametrize(("algorithm", "family"), FAMILIES)
@pytest.mark.parametrize("dims", SIDES)
def test_a_phase_takes_n_minus_1_steps_and_what_the_longer_side_adds(dims, algorithm, family):
    if algorithm == "bidirectional_ring_2d" and min(dims) < 3:
        return
    topology = family(*dims)
    schedule = build(topology, algorithm)
    report = verify(schedule)
    steps = topology.num_ranks - 1 + max(dims) - min(dims)
    assert (schedule.steps_reduce_scatter, schedule.steps_all_gather) == (steps, steps)
    assert report.contention_free
    pairs = topology.num_ranks * (topology.num_ranks - 1)
    assert report.num_messages == 2 * KINDS[algorithm] * pairs
    if family is torus:
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


@pytest.mark.parametrize("algorithm", KINDS)
def test_on_a_square_torus_every_rank_sends_over_as_many_links_in_every_step(algorithm):
    schedule = build(torus(4, 4), algorithm)
    assert (np.bincount(schedule.step) == 16 * KINDS[algorithm]).all()


def test_what_goes_around_a_row_came_a_whole_column_of_steps_before_and_so_does_what_turns():
    schedule = build_bidirectional_ring_2d(torus(4, 4))
    arrived = np.full((schedule.num_flows, 16), -schedule.num_steps)
    slack = np.full(schedule.num_steps, 2 * schedule.num_steps)
    for step, _, flow, src, dst in rows_of(schedule).tolist():
        slack[step] = min(slack[step], step - arrived[flow, src])
        arrived[flow, dst] = step
    assert slack[4:].tolist() == [4] * 9 + [1] * 5 + [4] * 12


@pytest.mark.parametrize(("algorithm", "family"), FAMILIES)
def test_rooted_collectives_go_along_one_row_then_along_all_columns(algorithm, family):
    # From the middle of a mesh of 3x5 it is 2 + 1 hops, and a turn for what goes the other way.
    steps = {(torus, 7): 2 * (5 - 1), (mesh, 7): 2 * 2, (torus, 3): 2 * 4, (mesh, 3): 2 * 3}
    for root in (7, 3):
        for schedule in rooted(family(3, 5), algorithm, root):
            assert schedule.num_flows == KINDS[algorithm]
            assert schedule.num_steps == steps[family, root]


@pytest.mark.parametrize(("algorithm", "family"), FAMILIES)
def test_a_rank_may_be_a_root_twice(algorithm, family):
    twice = ALGORITHMS[algorithm].build(family(3, 4), roots=[7, 7, 2])
    assert verify(twice).contention_free and does_its_collective(twice)
    assert np.bincount(twice.flow).tolist() == [22] * twice.num_flows


@pytest.mark.parametrize("dims", [(4, 4), (3, 5), (2, 6)])
def test_on_a_mesh_sums_come_to_their_place_from_both_ends(dims):
    schedule = build_ring_2d(mesh(*dims))
    assert (np.diff(schedule.route_offsets) == 1).all()
    ends = [np.stack(np.unravel_index(end, dims)) for end in (schedule.src, schedule.dst)]
    root = np.stack(np.unravel_index(schedule.flow // 2, dims))
    reduces = schedule.op == Op.REDUCE
    far, near = (np.abs(end - root).sum(axis=0) for end in ends)
    assert (far[reduces] == near[reduces] + 1).all()
    assert (near[~reduces] == far[~reduces] + 1).all()
    # Flows of the first kind come along their row at last in no column but the root's.
    first = reduces & (schedule.flow % 2 == 0)
    across = ends[0][0] == ends[1][0]
    down = first & ~across
    assert (ends[0][1] == root[1])[down].all()
    assert schedule.step[first & across].max() < schedule.step[down].min()


def folded_rings(topology):
    """Rows of one phase of a ring in each line of a square mesh, and their routes.

    A ring of dilation two: 0, 2, 4 and so on up, and the odd places back, so that neighbours are at
    most two links apart and each link is on one route in each direction.
    """
    side = topology.dims[0]
    around = [*range(0, side, 2), *reversed(range(1, side, 2))]
    link_of = {tuple(ends): link for link, ends in enumerate(topology.links.tolist())}
    grid = np.arange(side * side).reshape(side, side)
    routes = {}
    for line in [*grid, *grid.T]:
        for place, following in zip(around, [*around[1:], around[0]], strict=True):
            way = range(place, following, 1 if following > place else -1)
            hops = [(int(line[at]), int(line[at + way.step])) for at in way]
            routes[int(line[place]), int(line[following])] = [link_of[hop] for hop in hops]
    return np.array(around), routes


def test_rings_over_routes_would_take_as_many_steps_and_longer():
    topology = mesh(4, 4)
    around, routes = folded_rings(topology)
    assert sorted(itertools.chain(*routes.values())) == list(range(topology.num_links))
    # The same flows as on a torus whose places are those of the rings.
    rings = build_ring_2d(torus(4, 4))
    row, column = np.divmod(np.arange(16), 4)
    at = around[row] * 4 + around[column]
    src, dst, flow = at[rings.src], at[rings.dst], 2 * at[rings.flow // 2] + rings.flow % 2
    taken = [routes[pair] for pair in zip(src.tolist(), dst.tolist(), strict=True)]
    offsets, links = np.r_[0, np.cumsum([*map(len, taken)])], np.concatenate(taken)
    folded = by_hand(
        topology,
        np.stack([rings.step, rings.op, flow, src, dst], axis=1),
        flow_offsets=np.arange(33),
        routes=(offsets, links, np.zeros_like(links)),
    )
    assert verify(folded).contention_free and does_its_collective(folded)
    lines = build_ring_2d(topology)
    assert folded.steps_reduce_scatter == lines.steps_reduce_scatter == 15
    for num_flits in (256, 4096, 65536):
        assert analytic(lines, num_flits).cycles < analytic(folded, num_flits).cycles


def test_lines_of_two_are_rings_of_two():
    assert build_ring_2d(mesh(2, 2)).hash == build_ring_2d(torus(2, 2)).hash
