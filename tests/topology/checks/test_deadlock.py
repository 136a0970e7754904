"""A circle is found where there is one, and reported in a line."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitree import ScheduleError, Topology, build, ring, verify
from multitree.topology.checks.proofs import circle_among


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
    links = [[rank, (rank + 1) % num_ranks] for rank in range(num_ranks)]
    one_way = Topology("one way", num_ranks, 0, links, 16.0, 150.0)
    gather = build(ring(num_ranks), "ring", "all_gather")
    src = np.arange(gather.num_transfers) % num_ranks
    return replace(
        gather,
        topology=one_way,
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


def test_each_message_of_a_circle_waits_for_what_the_next_one_holds():
    schedule = around(5)
    with pytest.raises(ScheduleError) as raised:
        verify(schedule)
    words = [part.split() for part in str(raised.value).split("holds: ")[1].split(", ")]
    waits = [(int(part[1]), int(part[4])) for part in words]
    for (row, link), (following, _) in zip(waits, waits[1:] + waits[:1], strict=True):
        assert schedule.route_links[2 * row + 1] == link == schedule.route_links[2 * following]
