"""Recursive exchanges are binomial trees, sent as they are needed."""

import numpy as np
import pytest

from multitree.topology.algorithms.halving_doubling import (
    doubling_partners,
    exchange_rows,
    swing_partners,
    with_gather,
)
from multitree.topology.errors import ScheduleError

PARTNERS = {
    "doubling": doubling_partners(4),
    "farthest first": doubling_partners(4)[::-1],
    "swing": swing_partners([16], first_dimension=0, way=-1),
    "swing 2D": swing_partners([2, 8], first_dimension=1, way=1),
}
each_kind = pytest.mark.parametrize("partners", PARTNERS.values(), ids=PARTNERS)


def sent_in(rows, src, steps):
    """Flows that a rank sends in some steps, in the order of sending."""
    mine = rows[(rows[:, 3] == src) & np.isin(rows[:, 0], steps)]
    return mine[np.argsort(mine[:, 0]), 2].tolist()


@each_kind
def test_exchange_e_is_n_over_2_to_the_e_plus_1_steps_with_one_partner(partners):
    rows = exchange_rows(partners, np.arange(16))
    assert (np.bincount(rows[:, 0]) == 16).all()
    exchange_of = np.repeat(np.arange(4), [8, 4, 2, 1])[rows[:, 0]]
    assert (rows[:, 4] == partners[exchange_of, rows[:, 3]]).all()
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
        exchange_of = np.repeat(np.arange(4), [8, 4, 2, 1])[rows[rows[:, 2] == flow, 0]]
        assert np.bincount(exchange_of).tolist() == [8, 4, 2, 1]


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
