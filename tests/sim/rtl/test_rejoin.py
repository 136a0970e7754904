"""Tests of collectives' numbers in RTL: ranks far ahead, cards reset alone."""

import numpy as np
import pytest

from multitree import DeviceError, LinkModel, build, parse_topology, ring
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.rtl.session import RtlSession
from multitree.topology.collectives import Op
from tests.refusals import refuses
from tests.sim.emulated import SWITCHED, SWITCHED_SIZES, checked, checked_each
from tests.topology.graphs import by_hand, with_links

PRIVATE = {"num_rows": 16, "num_flows": 8, "link_model": LinkModel(buffer_flits=1024)}
SHARED = {**SWITCHED_SIZES, "link_model": SWITCHED}
LATE_CYCLES = 60_000


def broadcast(*edges):
    """A broadcast over a ring of three ranks along these edges, one after the other."""
    rows = [(step, Op.GATHER, 0, *edge) for step, edge in enumerate(edges)]
    return by_hand(with_links(ring(3), latency_ns=20.0), rows, "broadcast", 0)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("ahead", [128, 129, 300])
def test_a_rank_may_be_any_number_of_collectives_ahead_over_a_link_unused_so_far(ahead):
    """Rank 1 passes tiny broadcasts on to rank 2, then the root sends one there by itself."""
    through, direct = broadcast((0, 1), (1, 2)), broadcast((0, 2), (2, 1))
    queue = [Upcoming(through, 1, "int32")] * ahead + [Upcoming(direct, 1, "int32")]
    buffers = [np.array([[100 + k], [-1], [-2]], np.int32) for k in range(ahead + 1)]
    with RtlSession(through.topology, **PRIVATE) as session:
        traces = checked_each(session, queue, buffers, start_skew_cycles=[0, 0, LATE_CYCLES])
    assert traces[-1].sent.min() < traces[0].start[2]


CASES = [
    ("torus:2x2", "all_reduce", None, PRIVATE, 2**32),
    ("torus:2x2", "broadcast", 1, PRIVATE, 2**32),
    ("fat_tree:2x2", "all_reduce", None, SHARED, 256),
    ("fat_tree:2x2", "reduce", 2, SHARED, 256),
]


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "collective", "root", "sizes", "numbers"), CASES)
def test_one_idle_card_is_reset_rejoins_and_every_result_is_exact(
    spec, collective, root, sizes, numbers
):
    """After even and odd numbers of collectives, and where the numbers go round."""
    near = with_links(parse_topology(spec), latency_ns=20.0)
    schedule = build(near, "multitree", collective, root)
    rng = np.random.default_rng(5)
    with RtlSession(schedule.topology, **sizes) as session:
        for first in (0, numbers - 2):
            session.reset(first)
            for count, rank in ((1, 2), (2, 0), (1, 3), (3, 1)):
                buffers = rng.standard_normal((count, 4, 37)).astype(np.float32)
                checked(session, schedule, buffers)
                session.rejoin(rank)
            checked(session, schedule, [rng.standard_normal((4, 37)).astype(np.float32)])


@pytest.mark.slow
def test_a_card_does_not_rejoin_while_something_would_be_lost_with_it():
    """A leaf that never starts has not taken what the root of a broadcast sent it."""
    schedule, buffer = broadcast((0, 1), (1, 2)), np.array([[7], [-1], [-2]], np.int32)
    with RtlSession(schedule.topology, **PRIVATE) as session:
        refuses(DeviceError, "Rank 2", session.run, schedule, [buffer], idle_ranks=[2])
        refuses(DeviceError, "Rank 1: not delivered after 5000 reads", session.rejoin, 2)
        session.reset()
        checked(session, schedule, [buffer])
