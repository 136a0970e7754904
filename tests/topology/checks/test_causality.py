"""Who may not send yet, what overlaps, and circles of waiting messages."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitree import ScheduleError, build, ring
from multitree.topology.checks.proofs import circle_among
from multitree.topology.checks.verify import is_causal, links_overlap, overlaps, verify
from multitree.topology.collectives import Op
from tests.topology.graphs import both_ways, by_hand, one_way_ring, star


def with_slow(num_ranks, slow):
    """Two ranks, or three in a circle; some of the links are half as fast."""
    pairs = [(0, 1), (1, 2), (2, 0)] if num_ranks == 3 else [(0, 1)]
    speeds = [8.0 if link in slow else 16.0 for link in range(2 * len(pairs))]
    return both_ways("uneven", num_ranks, 0, pairs, speeds)


@pytest.mark.parametrize(
    ("num_ranks", "collective", "slow", "causal"),
    [
        (2, "reduce_scatter", [0], True),  # nobody waits for the last sums
        (2, "all_gather", [0], True),
        (2, "all_reduce", [0], False),  # a root waits for its sum before it passes it on
        (3, "reduce_scatter", [0], False),  # a sum waits for the one before
        (3, "all_gather", [0], False),  # a result waits for its arrival
        (3, "all_gather", [1, 3, 5], True),  # a ring does not take the other direction
        (3, "all_gather", [], True),
    ],
)
def test_nobody_sends_what_a_slow_link_has_not_brought(num_ranks, collective, slow, causal):
    schedule = build(with_slow(num_ranks, slow), "ring", collective=collective)
    report = verify(schedule)
    assert is_causal(schedule) is report.causal is causal
    # A slow link that is taken in every step is contention of one message a step.
    assert report.max_link_load == 1 and report.contention_free is causal


@pytest.mark.parametrize(
    ("slow", "steps"), [([], 1), ([0], 2), ([3], 2), ([0, 3], 2), ([2, 5], 1), ([1, 4], 1)], ids=str
)
def test_a_route_takes_as_long_as_its_slowest_link_wherever_that_is(slow, steps):
    uneven = star(3, [8.0 if link in slow else 16.0 for link in range(6)])
    for step in (1, 2, 3):
        rows = [[0, Op.REDUCE, 0, 0, 1], [step, Op.REDUCE, 0, 1, 2]]
        assert is_causal(by_hand(uneven, rows, "reduce", 2)) is (step >= steps)


@pytest.mark.parametrize("period", range(3, 9))
@pytest.mark.parametrize("second", [2, 3])
@pytest.mark.parametrize("num_waves", [1, 2, 5])
def test_a_slow_link_may_not_be_held_from_one_period_into_what_takes_it_in_the_next(
    num_waves, second, period
):
    starts = (0, second)
    rows = [
        [start + hop, Op.GATHER, flow, src, dst]
        for flow, start in enumerate(starts)
        for hop, src, dst in ((0, 0, 1), (2, 1, 2))
    ]
    schedule = by_hand(with_slow(3, [0]), rows, "broadcast", 0)
    schedule = replace(schedule, num_waves=num_waves, period=period if num_waves > 1 else 1)
    held = [
        start + later + wave * period
        for start in starts
        for later in range(2)
        for wave in range(num_waves)
    ]
    assert links_overlap(schedule) is (len(set(held)) < len(held))


def test_a_place_taken_again_before_it_is_free_overlaps():
    places, slots = np.array([3, 5, 3], np.int32), np.array([2, 9, 1], np.int64)
    for again, overlap in ((0, True), (1, True), (2, False)):
        assert overlaps(places, np.array([0, 0, again], np.int32), slots) is overlap


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=14))
@settings(deadline=None, print_blob=True)
def test_a_circle_is_found_exactly_where_networkx_finds_one(pairs):
    source, target = np.array(sorted(pairs)).T
    circle = circle_among(source, target, 8)
    assert bool(circle) != nx.is_directed_acyclic_graph(nx.DiGraph(pairs))
    assert len(set(circle)) == len(circle)
    for edge, following in zip(circle, circle[1:] + circle[:1], strict=True):
        assert target[edge] == source[following]


def around(num_ranks):
    """An all-gather on a one-way ring each of whose messages takes two links, all in class 0."""
    gather = build(ring(num_ranks), "ring", "all_gather")
    src = np.arange(gather.num_transfers) % num_ranks
    return replace(
        gather,
        topology=one_way_ring(num_ranks),
        src=src,
        dst=(src + 2) % num_ranks,
        route_offsets=2 * np.arange(len(src) + 1),
        route_links=np.stack([src, (src + 1) % num_ranks], axis=1).ravel(),
        route_classes=np.zeros(2 * len(src), int),
    )


def test_a_circle_of_waiting_messages_is_described_message_by_message_and_a_long_one_in_part():
    with pytest.raises(ScheduleError, match="must not close a circle") as short:
        verify(around(5))
    assert str(short.value).count("class 0") == 5
    with pytest.raises(ScheduleError, match=r"and 43 more$") as long:
        verify(around(51))
    assert str(long.value).count("class 0") == 8
