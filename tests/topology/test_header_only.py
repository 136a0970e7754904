"""Tests of the header-only phase: the same trees the other way, without payload."""

import numpy as np
import pytest

from multitree import ScheduleError, build, fat_tree, ring, verify
from multitree.topology.collectives import Op
from multitree.topology.lowering import as_sent, header_only_ops, lowered, with_header_only_phase
from tests.topology.graphs import by_hand, over, rows_of

ROWS = ("op", "flow", "src", "dst", "order", "step")
NETWORKS = "torus:3x3 fat_tree:2x4 bigraph:4x4 dgx2"


@over(NETWORKS)
@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@pytest.mark.parametrize("algorithm", ["multitree", "double_tree"])
def test_the_schedule_s_own_rows_stay_and_the_others_are_their_mirror(
    topology, collective, algorithm
):
    schedule = build(topology, algorithm, collective, root=2)
    whole, (header_only,) = with_header_only_phase(schedule), header_only_ops(collective)
    own = whole.op != header_only
    shift = schedule.num_steps if header_only == Op.REDUCE else 0
    shifted = rows_of(schedule, *ROWS) + [shift if field == "step" else 0 for field in ROWS]
    assert (rows_of(whole, *ROWS)[own] == shifted).all()
    hops = np.diff(whole.route_offsets)
    assert (whole.route_links[np.repeat(own, hops)] == schedule.route_links).all()
    assert (whole.route_classes[np.repeat(own, hops)] == schedule.route_classes).all()
    ends = rows_of(whole, "flow", "src", "dst")
    assert sorted(ends[own].tolist()) == sorted(ends[~own][:, [0, 2, 1]].tolist())
    assert (whole.num_steps, whole.num_flows) == (2 * schedule.num_steps, schedule.num_flows)
    assert verify(whole).num_messages == 2 * schedule.num_transfers


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather"])
def test_where_everybody_gets_a_part_of_everybody_s_there_is_none(collective):
    schedule = build(fat_tree(2, 2), "multitree", collective)
    assert with_header_only_phase(schedule) is schedule and header_only_ops(collective) == ()


@pytest.mark.parametrize(
    ("topology", "algorithm", "shared"),
    [(ring(4), "ring", False), (ring(8), "halving_doubling", True), (fat_tree(2, 2), "ring", True)],
    ids=["direct", "through ranks", "switches"],
)
@pytest.mark.parametrize(("collective", "root"), [("all_reduce", None), ("broadcast", 1)])
def test_what_is_sent_has_its_silent_phase_and_leads_through_no_rank_where_links_are_shared(
    topology, algorithm, shared, collective, root
):
    schedule = build(topology, algorithm, collective, root=root)
    sent = as_sent(schedule)
    assert bool(sent.topology.num_switches) == shared
    if not shared:
        assert sent is schedule
        return
    whole = with_header_only_phase(schedule)
    assert lowered(sent) is sent and sent.collective == "all_reduce"
    assert (rows_of(sent, *ROWS) == rows_of(whole, *ROWS)).all()
    assert sent.hash == lowered(whole).hash and verify(sent).num_messages == len(whole.op)


def heard_at_the_end(schedule):
    """Whose begin each rank has learned of when it ends, bool (num_ranks, num_ranks).

    A message tells what its source knew of the flow: that it began itself, and what came in of
    this flow before.
    """
    num_ranks, num_flows = schedule.topology.num_ranks, schedule.num_flows
    known = np.broadcast_to(np.eye(num_ranks, dtype=bool), (num_flows, num_ranks, num_ranks)).copy()
    for step in range(schedule.num_steps):
        rows = schedule.step == step
        flow, src, dst = schedule.flow[rows], schedule.src[rows], schedule.dst[rows]
        reported = known[flow, src]
        np.logical_or.at(known, (flow, dst), reported)
    return known.any(axis=0)


@over(NETWORKS)
@pytest.mark.parametrize("algorithm", ["multitree", "double_tree", "ring", "halving_doubling"])
@pytest.mark.parametrize(
    "collective", ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"]
)
def test_nobody_ends_on_shared_links_what_somebody_has_not_begun(topology, algorithm, collective):
    """So no rank is two collectives ahead, and a parity distinguishes collectives there."""
    root = 1 if collective in ("broadcast", "reduce") else None
    try:
        schedule = build(topology, algorithm, collective, root)
    except ScheduleError:
        assert algorithm == "double_tree" and root is None
        return
    assert heard_at_the_end(with_header_only_phase(schedule)).all()
    if root is not None:
        assert not heard_at_the_end(schedule).all()


def test_heads_that_could_wait_in_a_circle_with_the_schedule_s_own_messages_are_refused():
    rows = [(0, 1, 0, 2, 0), (1, 1, 0, 0, 3), (2, 1, 0, 0, 1), (3, 1, 0, 1, 5), (4, 1, 0, 3, 4)]
    routes = [[5, 7, 9, 11], [1, 3, 5], [1], [2, 0], [7]]
    classes = [[1, 0, 0, 0], [1, 1, 1], [0], [0, 0], [0]]
    offsets = np.cumsum([0, *map(len, routes)])
    routes = (offsets, np.concatenate(routes), np.concatenate(classes))
    schedule = by_hand(ring(6), rows, "broadcast", 2, routes=routes)
    verify(schedule)
    with pytest.raises(ScheduleError, match="must not close a circle of waiting messages"):
        with_header_only_phase(schedule)
