"""Recursive exchanges: halving and doubling, HDRM on BiGraphs, and Swing on tori."""

import numpy as np
import pytest

from multitree import ScheduleError, bigraph, fat_tree, verify
from multitree.topology.algorithms.halving_doubling import (
    build_halving_doubling,
    build_hdrm,
    build_swing,
    doubling_partners,
    exchange_rows,
    swing_partners,
    with_gather,
)
from multitree.topology.collectives import Op
from multitree.topology.families.direct import fully_connected, hypercube, ring, torus
from multitree.topology.schedules.schedule import phase_of
from tests.topology.graphs import over
from tests.topology.oracles import does_its_collective


@over("hypercube:1 hypercube:3 hypercube:5 full:16")
def test_powers_of_two_take_n_minus_1_steps_of_nearest_numbers_first(topology):
    num_ranks = topology.num_ranks
    schedule = build_halving_doubling(topology)
    report = verify(schedule)
    assert report.contention_free
    assert (schedule.steps_reduce_scatter, schedule.steps_all_gather) == (num_ranks - 1,) * 2
    assert report.max_messages_per_rank == 2 * (num_ranks - 1)
    assert report.tree_height_hops == num_ranks.bit_length() - 1
    exchange = np.repeat(np.arange(num_ranks), num_ranks >> np.arange(1, num_ranks + 1))
    sums = schedule.op == Op.REDUCE
    assert (schedule.src[sums] ^ schedule.dst[sums] == 1 << exchange[schedule.step[sums]]).all()
    assert does_its_collective(schedule)


@pytest.mark.parametrize("num_ranks", [3, 5, 6, 7, 12])
def test_other_numbers_fold_in_pairs_and_still_have_a_flow_rooted_at_each_rank(num_ranks):
    schedule = build_halving_doubling(fully_connected(num_ranks))
    num_places = 1 << (num_ranks.bit_length() - 1)
    num_pairs = num_ranks - num_places
    assert verify(schedule).contention_free and does_its_collective(schedule)
    assert sorted(schedule.flow_roots.tolist()) == list(range(num_ranks))
    folds = (schedule.op == Op.REDUCE) & (schedule.step < num_ranks - 1)
    ends = np.stack([schedule.src[folds], schedule.dst[folds]])
    assert (ends // 2 < num_pairs).all() and (ends[0] ^ ends[1] == 1).all()
    assert folds.sum() == num_ranks * num_pairs
    onward = (schedule.op == Op.REDUCE) & (schedule.step >= num_ranks - 1)
    assert onward.sum() == num_ranks * (num_places - 1)
    for phase in ("reduce_scatter", "all_gather"):
        assert does_its_collective(phase_of(schedule, phase))


def test_of_a_pair_the_root_of_a_flow_speaks_and_else_the_lower_rank():
    schedule = build_halving_doubling(fully_connected(5))
    header_only = {
        flow: set(schedule.src[(schedule.flow == flow) & (schedule.step < 4)].tolist())
        for flow in range(5)
    }
    assert header_only == {0: {1}, 1: {0}, 2: {1}, 3: {1}, 4: {1}}


def test_what_is_passed_on_first_is_folded_first():
    schedule = build_halving_doubling(fully_connected(12))
    sums = schedule.op == Op.REDUCE
    for speaker in (0, 2, 4, 6):
        came = schedule.flow[sums & (schedule.dst == speaker) & (schedule.src == speaker + 1)]
        onward = schedule.flow[sums & (schedule.src == speaker) & (schedule.dst != speaker + 1)]
        assert came[: len(onward)].tolist() == onward.tolist()


def test_one_root_alone_is_a_binomial_tree():
    schedule = build_halving_doubling(hypercube(4), roots=[9])
    assert (schedule.num_flows, schedule.steps_reduce_scatter) == (1, 4)
    assert does_its_collective(schedule)
    folded = build_halving_doubling(fully_connected(6), roots=[3])
    assert folded.steps_reduce_scatter == 3 and does_its_collective(folded)


def test_partners_without_a_link_meet_on_their_routes_and_the_report_says_so():
    assert verify(build_halving_doubling(torus(4, 4))).max_link_load == 1
    report = verify(build_halving_doubling(torus(8, 8)))
    assert (report.contention_free, report.max_link_load) == (False, 2)
    assert verify(build_halving_doubling(fat_tree(8, 8))).contention_free


PARTNERS = {
    "doubling": doubling_partners(4),
    "farthest first": doubling_partners(4)[::-1],
    "swing": swing_partners([16], first_dimension=0, way=-1),
    "swing 2D": swing_partners([2, 8], first_dimension=1, way=1),
}
EXCHANGE_OF_STEP = np.repeat(np.arange(4), [8, 4, 2, 1])
each_kind = pytest.mark.parametrize("partners", PARTNERS.values(), ids=PARTNERS)


def sent_in(rows, src, steps):
    """Flows that a rank sends in some steps, in the order of sending."""
    mine = rows[(rows[:, 3] == src) & np.isin(rows[:, 0], steps)]
    return mine[np.argsort(mine[:, 0]), 2].tolist()


@each_kind
def test_exchange_e_is_n_over_2_to_the_e_plus_1_steps_with_one_partner(partners):
    rows = exchange_rows(partners, np.arange(16))
    assert (np.bincount(rows[:, 0]) == 16).all()
    assert (rows[:, 4] == partners[EXCHANGE_OF_STEP[rows[:, 0]], rows[:, 3]]).all()
    for step in range(15):
        assert sorted(rows[rows[:, 0] == step, 3]) == list(range(16))


@each_kind
def test_what_a_partner_passes_on_in_the_next_exchange_comes_first_and_in_that_order(partners):
    rows = exchange_rows(partners, np.arange(16))
    for src in range(16):
        came = sent_in(rows, src, range(8))
        onward = sent_in(rows, partners[0, src], range(8, 12))
        assert came[:4] == onward


@each_kind
def test_every_flow_is_a_binomial_tree(partners):
    rows = exchange_rows(partners, np.arange(16))
    for flow in range(16):
        exchanges = EXCHANGE_OF_STEP[rows[rows[:, 2] == flow, 0]]
        assert np.bincount(exchanges).tolist() == [8, 4, 2, 1]


def test_flows_that_share_a_root_follow_each_other():
    rows = exchange_rows(doubling_partners(2), np.array([3, 0, 3]))
    assert np.bincount(rows[:, 2]).tolist() == [3, 3, 3]
    assert [sent_in(rows, src, range(9)) for src in range(4)] == [[0, 2], [1, 0, 2], [0, 2, 1], [1]]


def test_in_turns_only_those_whose_turn_it_is_send():
    turns = np.array([[0, 0, 0, 0], [0, 1, 0, 1]])
    rows = exchange_rows(doubling_partners(2), np.arange(4), turns)
    second = rows[rows[:, 0] >= 2]
    assert np.bincount(rows[:, 0]).tolist() == [4, 4, 2, 2]
    assert (second[:, 0] - 2 == turns[1, second[:, 3]]).all()


@pytest.mark.parametrize(
    "partners",
    [doubling_partners(2)[[0, 0]], doubling_partners(2)[:1], np.array([[1, 0, 2], [2, 1, 0]])],
)
def test_exchanges_that_miss_a_root_are_refused(partners):
    with pytest.raises(ScheduleError, match=r"must take each of . ranks to every root on one path"):
        exchange_rows(partners, np.arange(partners.shape[1]))


def test_all_gather_is_the_reduce_scatter_backwards():
    sums = exchange_rows(doubling_partners(3), np.arange(8))
    both = with_gather(sums)
    assert (both[:56] == sums).all()
    assert (both[56:, 0] == 13 - sums[:, 0]).all() and (both[56:, 1] == 1).all()
    assert (both[56:, 2:] == sums[:, [2, 4, 3]]).all()


ENOUGH_LINKS = [(4, 8), (2, 8), (1, 2), (1, 8), (2, 4), (8, 16)]
SHARED_LINKS = [(8, 4), (4, 4), (4, 2), (16, 8)]


@pytest.mark.parametrize("dims", ENOUGH_LINKS)
def test_with_enough_links_between_switches_n_minus_1_steps_reach_the_bound(dims):
    topology = bigraph(*dims)
    schedule = build_hdrm(topology)
    report = verify(schedule)
    assert report.contention_free
    assert schedule.steps_reduce_scatter == schedule.steps_all_gather == report.bound_steps
    assert report.max_messages_per_rank == 2 * report.bound_steps
    half = dims[1] // 2
    assert ((schedule.src // dims[0] < half) != (schedule.dst // dims[0] < half)).all()
    assert (np.diff(schedule.route_offsets) == 3).all()
    assert topology.num_ranks > 32 or does_its_collective(schedule)


@pytest.mark.parametrize("dims", SHARED_LINKS)
def test_ranks_that_share_a_link_exchange_on_their_switch_first_and_then_take_turns(dims):
    topology = bigraph(*dims)
    schedule = build_hdrm(topology)
    assert verify(schedule).contention_free
    n, sharing = topology.num_ranks, dims[0] // (dims[1] // 2)
    assert schedule.steps_reduce_scatter == n - n // sharing + n - sharing
    on_switch = schedule.src // dims[0] == schedule.dst // dims[0]
    early, sums = schedule.step < n - n // sharing, schedule.op == Op.REDUCE
    assert (on_switch == early)[sums].all()
    assert n > 32 or does_its_collective(schedule)


def test_without_the_mapping_messages_meet():
    assert verify(build_halving_doubling(bigraph(4, 8))).max_link_load == 4


def test_every_rank_is_the_root_of_its_own_flow():
    schedule = build_hdrm(bigraph(4, 8))
    assert schedule.flow_roots.tolist() == list(range(32))
    assert does_its_collective(phase_of(build_hdrm(bigraph(2, 8), roots=[5]), "broadcast"))


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


@over("ring:2 ring:8 ring:16 torus:4x4 torus:2x4 torus:8x4 torus:2x2x4")
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
    assert build_swing(ring(num_ranks)).max_link_load == load


def test_sums_of_the_mirrored_kind_go_the_other_way_around():
    schedule = build_swing(ring(8))
    for kind, even_goes in ((0, 1), (1, -1)):
        rows = (schedule.step < 4) & (schedule.flow % 2 == kind) & (schedule.op == Op.REDUCE)
        even = rows & (schedule.src % 2 == 0)
        assert ((schedule.dst[even] - schedule.src[even]) % 8 == even_goes % 8).all()
