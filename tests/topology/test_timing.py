"""Data over links of unequal speeds: who may not send yet, and what overlaps."""

import numpy as np
import pytest

from multitree.topology.builders import build
from multitree.topology.timing import is_causal, overlaps
from multitree.topology.topology import Topology
from multitree.topology.verify import verify

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


def test_a_place_taken_again_before_it_is_free_overlaps():
    places, slots = np.array([3, 5, 3], np.int32), np.array([2, 9, 1], np.int64)
    for again, overlap in ((0, True), (1, True), (2, False)):
        assert overlaps(places, np.array([0, 0, again], np.int32), slots) is overlap
