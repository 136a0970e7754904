"""Halving and doubling: log2(N) exchanges, and pairs that fold before them."""

import numpy as np
import pytest

from multitree import fat_tree, fully_connected, hypercube, torus, verify
from multitree.topology.algorithms.halving_doubling import build_halving_doubling
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import phase_of
from tests.topology.oracles import does_its_collective


@pytest.mark.parametrize("topology", [hypercube(d) for d in (1, 3, 5)] + [fully_connected(16)])
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
