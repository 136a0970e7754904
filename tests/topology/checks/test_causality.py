"""Data over links of unequal speeds: who may not send yet, and what overlaps."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import Topology, build
from multitree.topology.checks.verify import is_causal, links_overlap, overlaps, verify
from multitree.topology.collectives import Op
from tests.topology.graphs import by_hand

LINKS = [[0, 1], [1, 0], [1, 2], [2, 1], [2, 0], [0, 2]]


@pytest.mark.parametrize(
    ("num_ranks", "collective", "slow", "causal"),
    [
        (2, "reduce_scatter", [0], True),  # nobody waits for the last sums
        (2, "all_gather", [0], True),
        (2, "all_reduce", [0], False),  # a root waits for its sum before it passes it on
        (3, "reduce_scatter", [0], False),  # a sum waits for the one before
        (3, "all_gather", [0], False),  # a result waits for its arrival
        (3, "all_gather", [1, 3, 5], True),  # a ring does not take the other direction
    ],
)
def test_nobody_sends_what_a_slow_link_has_not_brought(num_ranks, collective, slow, causal):
    links = LINKS if num_ranks == 3 else LINKS[:2]
    speeds = [8.0 if link in slow else 16.0 for link in range(len(links))]
    uneven = Topology("uneven", num_ranks, 0, links, speeds, 150.0)
    schedule = build(uneven, "ring", collective=collective)
    assert is_causal(schedule) is verify(schedule).causal is causal


STAR = [[0, 3], [3, 0], [1, 3], [3, 1], [2, 3], [3, 2]]


@pytest.mark.parametrize(
    ("slow", "steps"),
    [([], 1), ([0], 2), ([3], 2), ([0, 3], 2), ([2, 5], 1), ([1, 4], 1)],
    ids=str,
)
def test_a_route_takes_as_long_as_its_slowest_link_wherever_that_is(slow, steps):
    speeds = [8.0 if link in slow else 16.0 for link in range(len(STAR))]
    star = Topology("star", 3, 1, STAR, speeds, 150.0)
    for step in (1, 2, 3):
        schedule = by_hand(star, [[0, Op.REDUCE, 0, 0, 1], [step, Op.REDUCE, 0, 1, 2]], "reduce", 2)
        assert is_causal(schedule) is (step >= steps)


@pytest.mark.parametrize(("slow", "free"), [([], True), ([0], False), ([1, 3, 5], True)], ids=str)
def test_a_slow_link_that_is_taken_every_step_is_contention_of_one_message_a_step(slow, free):
    speeds = [8.0 if link in slow else 16.0 for link in range(len(LINKS))]
    uneven = Topology("uneven", 3, 0, LINKS, speeds, 150.0)
    report = verify(build(uneven, "ring", collective="all_gather"))
    assert report.max_link_load == 1 and report.contention_free is free


@pytest.mark.parametrize("period", range(3, 9))
@pytest.mark.parametrize("second", [2, 3])
@pytest.mark.parametrize("num_waves", [1, 2, 5])
def test_a_slow_link_may_not_be_held_from_one_period_into_what_takes_it_in_the_next(
    num_waves, second, period
):
    speeds = [8.0, *[16.0] * 5]
    starts = (0, second)
    schedule = by_hand(
        Topology("uneven", 3, 0, LINKS, speeds, 150.0),
        [
            [start + hop, Op.GATHER, flow, src, dst]
            for flow, start in enumerate(starts)
            for hop, src, dst in ((0, 0, 1), (2, 1, 2))
        ],
        "broadcast",
        0,
    )
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
