"""Siblings are numbered by the time at which they are expected."""

import numpy as np
import pytest
from hypothesis import given, settings

from multitree import fully_connected, mesh, torus
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.schedules.trees import (
    LARGE_CHUNKS,
    SMALL_CHUNKS,
    Journeys,
    expected_order,
)
from tests.topology.graphs import by_hand, topologies


def arrivals_row_by_row(schedule, times=LARGE_CHUNKS):
    """The same timing as `order`, one row after the other."""
    chunk_time, hop_time = times
    free, ready, arrival = {}, {}, []
    columns = (schedule.step, schedule.flow, schedule.src, schedule.dst, schedule.route_links)
    for step, flow, src, dst, link in zip(*(c.tolist() for c in columns), strict=True):
        earlier = [time for when, time in ready.get((flow, src), []) if when < step]
        start = max([free.get(link, 0), *earlier])
        free[link] = start + chunk_time
        arrival.append(start + chunk_time + hop_time)
        ready.setdefault((flow, dst), []).append((step, arrival[-1]))
    return arrival


def check_order(schedule):
    """MultiTree's siblings are in the order of small chunks."""
    arrival = arrivals_row_by_row(schedule, SMALL_CHUNKS)
    assert schedule.expected_end(SMALL_CHUNKS) == max(arrival)
    siblings = {}
    columns = (schedule.step, schedule.op, schedule.flow, schedule.dst, schedule.src)
    for row, (step, op, flow, dst, src) in enumerate(
        zip(*(c.tolist() for c in columns), strict=True)
    ):
        if op == 0:
            siblings.setdefault((step, flow, dst), []).append((arrival[row], src, row))
        else:
            assert schedule.order[row] == 0
    for group in siblings.values():
        assert [schedule.order[row] for _, _, row in sorted(group)] == list(range(len(group)))
    return siblings


@pytest.mark.slow
@given(topologies())
@settings(deadline=None, print_blob=True, max_examples=60)
def test_order_is_by_arrival_then_by_source(topology):
    check_order(build_multitree(topology))


@pytest.mark.parametrize("topology", [torus(4, 4), torus(8, 8), mesh(4, 4), fully_connected(6)])
def test_order_is_by_arrival_then_by_source_on_families(topology):
    siblings = check_order(build_multitree(topology))
    assert max(len(group) for group in siblings.values()) > 1


def test_a_sibling_whose_port_is_busy_comes_after_one_of_a_higher_rank():
    rows = [[0, 0, 1, 1, 0], [0, 0, 1, 2, 1], [0, 0, 0, 1, 0], [0, 0, 0, 2, 0], [1, 0, 1, 3, 2]]
    made = by_hand(
        fully_connected(4),
        [[1, 0, 0, 1, 0], [1, 0, 0, 2, 0], [0, 0, 1, 1, 0], *rows[4:]],
        "reduce",
        0,
    )
    assert [made.src[row] for row in range(4)] == [1, 1, 2, 3]
    # Ranks 1 and 2 are siblings in step 1; the port of rank 1 sent another chunk before.
    assert made.order.tolist() == [0, 1, 0, 0]


def test_a_link_with_two_transfers_in_one_step_sends_them_in_row_order():
    rows = [[0, 0, 0, 1, 0], [0, 0, 1, 1, 0], [0, 0, 1, 2, 0]]
    made = by_hand(fully_connected(3), rows, "reduce", 0)
    assert made.max_link_load == 2
    assert made.order.tolist() == [0, 1, 0]
    assert np.array(arrivals_row_by_row(made)).tolist() == [17, 33, 17]


def test_a_sibling_that_comes_a_longer_way_is_expected_later():
    rows = {"step": [0, 0], "op": [0, 0], "flow": [0, 0], "src": [1, 2], "dst": [0, 0]}
    columns = {field: np.array(values, np.int32) for field, values in rows.items()}
    links = np.array([0, 1], np.int32)
    for hops, order in (([1, 1], [0, 1]), ([2, 1], [1, 0]), ([1, 2], [0, 1])):
        journeys = Journeys(columns, links, np.array(hops), 3, 1, 2)
        assert expected_order(journeys).tolist() == order
