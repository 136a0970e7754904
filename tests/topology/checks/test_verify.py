"""What verify accepts is right; a schedule broken in any way is rejected by row."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from multitree import ScheduleError, build, parse_topology
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.algorithms.registry import COMPARED
from multitree.topology.checks.verify import termination_cycles, verify
from multitree.topology.collectives import COLLECTIVES, ROOTED, Op
from multitree.topology.families.direct import fully_connected, mesh, ring, torus
from tests.refusals import refuses
from tests.topology.graphs import by_hand, one_way_ring, rows_of, topologies
from tests.topology.oracles import does_its_collective

CASES = [
    (algorithm, collective)
    for algorithm in COMPARED
    for collective in COLLECTIVES
    if algorithm != "bidirectional_ring" or collective not in ("reduce_scatter", "all_gather")
]


def rebuilt(schedule, rows, topology=None):
    """A schedule of changed rows, sorted and ordered anew, on links that exist for all."""
    return by_hand(
        topology or fully_connected(schedule.topology.num_ranks),
        rows,
        schedule.collective,
        schedule.root,
        flow_offsets=schedule.flow_offsets,
    )


def rejected(says, schedule):
    refuses(ScheduleError, says, verify, schedule)


def drop(rows, row, rng):
    return np.delete(rows, row, axis=0)


def double(rows, row, rng):
    return np.insert(rows, row, rows[row], axis=0)


def double_later(rows, row, rng):
    return np.r_[rows, [[rows[:, 0].max() + 1, *rows[row, 1:]]]]


def retarget(rows, row, rng):
    others = [rank for rank in range(rows[:, 3:].max() + 1) if rank not in rows[row, 3:]]
    rows[row, 4 if rows[row, 1] == Op.GATHER else 3] = rng.choice(others)
    return rows


def move_to_another_flow(rows, row, rng):
    flows = [flow for flow in range(rows[:, 2].max() + 1) if flow != rows[row, 2]]
    rows[row, 2] = rng.choice(flows)
    return rows


def change_op(rows, row, rng):
    rows[row, 1] = 1 - rows[row, 1]
    return rows


def turn_around(rows, row, rng):
    rows[row, 3:] = rows[row, :2:-1].copy()
    return rows


BREAKS = [drop, double, double_later, retarget, move_to_another_flow, change_op, turn_around]


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("algorithm", COMPARED)
def test_every_builders_schedule_is_accepted(algorithm, collective):
    if (algorithm, collective) not in CASES:
        says = "one flow rooted at each rank, not 24 flows for 12"
        refuses(ScheduleError, says, build, torus(3, 4), algorithm, collective)
        return
    schedule = build(torus(3, 4), algorithm, collective, 5 if collective in ROOTED else None)
    report = verify(schedule)
    assert report.contention_free and report.max_link_load == 1
    assert report.num_messages == schedule.num_transfers
    assert report.num_steps == schedule.num_steps
    assert report.tree_height_hops == schedule.tree_height_hops
    assert report.bound_steps == 3
    assert report.max_messages_per_rank == max(np.bincount(schedule.src))
    assert report.max_siblings == max(schedule.order) + 1
    assert does_its_collective(schedule)


@pytest.mark.slow
@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
@pytest.mark.parametrize(("algorithm", "collective"), CASES)
def test_a_schedule_with_one_row_broken_is_rejected_by_row(algorithm, collective, broken):
    schedule = build(torus(3, 4), algorithm, collective, 5 if collective in ROOTED else None)
    rows = rows_of(schedule)
    if broken is move_to_another_flow and schedule.num_flows == 1:
        return
    for seed in range(12):
        rng = np.random.default_rng(seed)
        row = int(rng.integers(len(rows)))
        with pytest.raises(ScheduleError, match=r"^Row \d+ \(step \d+, flow \d+, .*must"):
            verify(rebuilt(schedule, broken(rows.copy(), row, rng)))
            pytest.fail(f"accepted with seed {seed}, row {row} {rows[row].tolist()}")


def test_the_row_that_is_named_is_the_one_that_is_wrong():
    schedule = build_multitree(torus(4, 4))
    rows = rows_of(schedule)
    for row in (0, 100, 239):
        again = rebuilt(schedule, double_later(rows, row, None))
        ends = f"REDUCE {rows[row, 3]} -> {rows[row, 4]}"
        flow = rows[row, 2]
        message = rf"Row 480 \(step 8, flow {flow}, {ends}\): rank {rows[row, 3]} must send its "
        rejected(message + rf"sum once, not again after Row {row} ", again)
        twice = rebuilt(schedule, double(rows, row, None))
        rejected(rf"{row + 1} .*: rows must ascend .*Row {row} ", twice)


def test_a_transfer_moved_to_a_step_before_what_it_needs_is_rejected_by_row():
    schedule = build_multitree(torus(4, 4))
    rows = rows_of(schedule)
    tried = 0
    for row in range(len(rows)):
        op, flow, src, dst = rows[row, 1:].tolist()
        of_flow = rows[(rows[:, 2] == flow) & (rows[:, 1] == op)]
        moved = rows.copy()
        if op == Op.REDUCE and (of_flow[:, 3] == dst).any():
            moved[row, 0] = of_flow[of_flow[:, 3] == dst][0, 0]
        elif op == Op.GATHER and (of_flow[:, 4] == src).any():
            moved[row, 0] = of_flow[of_flow[:, 4] == src][0, 0]
        else:
            continue
        tried += 1
        rejected(rf"Row \d+ .*flow {flow}, .* {src} -> {dst}\): step", rebuilt(schedule, moved))
    assert tried > 200


def test_a_result_that_leaves_before_the_sum_is_whole_or_from_elsewhere_is_rejected():
    schedule = build_multitree(torus(4, 4))
    rows = rows_of(schedule)
    early = rows.copy()
    early[rows[:, 1] == Op.GATHER, 0] -= 1
    rejected(r"Row \d+ .*: step must be after the sum's last, 3, not 3", rebuilt(schedule, early))
    elsewhere = rows.copy()
    gathers = elsewhere[:, 1] == Op.GATHER
    elsewhere[gathers, 2] = (elsewhere[gathers, 2] + 1) % 16
    rejected(r"Row \d+ .*results must come from the root of the sum", rebuilt(schedule, elsewhere))


def test_a_circle_next_to_a_tree_is_rejected_by_row():
    circle = [[0, 1, 0, 1, 2], [1, 1, 0, 2, 3], [2, 1, 0, 3, 1]]
    made = by_hand(fully_connected(4), circle, "broadcast", 0)
    message = (
        r"Row 0 .*: step must be after the one in which rank 1 itself does receive the result, "
        r"not 0 where that is 2$"
    )
    rejected(message, made)
    # Row 1 leaves as early: the first of them is named.
    rejected(message, rebuilt(made, [circle[0], [0, 1, 0, 2, 3], circle[2]]))
    rejected(r"Row 3 .*must have a root, not a circle", rebuilt(made, [*circle, [3, 1, 0, 1, 0]]))


def test_a_flow_without_rows_is_rejected_by_flow():
    schedule = build_multitree(ring(3))
    rows = rows_of(schedule)
    others = rows[(rows[:, 1] == Op.REDUCE) | (rows[:, 2] != 1)]
    rejected("Flow 1 must have GATHER rows, not none", rebuilt(schedule, others))


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 2, 1, 3], "Flow offsets must not fall, not go from 2 to 1 at flow 1"),
        ([1, 2, 3, 4], "Flow offsets must run from 0 to a positive number, not from 1 to 4"),
        ([0, 0, 0, 0], "Flow offsets must run from 0 to a positive number, not from 0 to 0"),
        ([0, -1, 2, 3], "Flow offsets must not fall, not go from 0 to -1 at flow 0"),
    ],
)
def test_flow_offsets_that_do_not_share_out_the_buffer_are_rejected(offsets, message):
    schedule = build_multitree(ring(3))
    rejected(message, replace(schedule, flow_offsets=offsets))
    assert verify(replace(schedule, flow_offsets=[0, 0, 5, 5])).contention_free


def test_a_route_that_is_no_path_from_src_to_dst_is_rejected_by_row():
    schedule = build_multitree(torus(4, 4))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        row = int(rng.integers(schedule.num_transfers))
        links = schedule.route_links.copy()
        links[row] = (links[row] + 1) % schedule.topology.num_links
        message = rf"Row {row} .*: route must be a path from src to another rank dst, not links"
        rejected(message, replace(schedule, route_links=links))


def with_routes(schedule, routes, classes=None):
    links = np.concatenate(routes)
    offsets = np.r_[0, np.cumsum([len(route) for route in routes])]
    classes = np.zeros_like(links) if classes is None else np.concatenate(classes)
    return replace(schedule, route_offsets=offsets, route_links=links, route_classes=classes)


def test_routes_of_several_links_must_hang_together_and_wait_in_no_circle():
    reduces = [
        [step, Op.REDUCE, flow, (flow + shift) % 4, flow]
        for step, shift in enumerate((2, 1, 3))
        for flow in range(4)
    ]
    made = by_hand(fully_connected(4), reduces, "reduce_scatter")
    made = replace(made, topology=one_way_ring(4), route_links=made.route_links % 4)
    routes = [
        [(src + hop) % 4 for hop in range((dst - src) % 4)]
        for src, dst in zip(made.src.tolist(), made.dst.tolist(), strict=True)
    ]
    with pytest.raises(ScheduleError, match=r"Row \d+ .*: route must not close a circle") as error:
        verify(with_routes(made, routes))
    waits = re.findall(r"row (\d+) for link (\d+) class 0", str(error.value))
    circle = [(int(row), int(link)) for row, link in waits]
    assert sorted(link for _, link in circle) == [0, 1, 2, 3]
    for (row, wanted), (_, held) in zip(circle, circle[-1:] + circle[:-1], strict=True):
        assert routes[row][routes[row].index(held) + 1] == wanted
    # A second class behind link 3, the dateline, breaks the circle.
    classes = [[int(3 in route[: hop + 1]) for hop in range(len(route))] for route in routes]
    report = verify(with_routes(made, routes, classes))
    assert report.max_link_load == 3 and not report.contention_free
    assert report.tree_height_hops == 3
    torn = [list(route) for route in routes]
    torn[5] = [torn[5][0], *torn[5][2:]]
    rejected(r"Row 5 .*: route must be a path", with_routes(made, torn))


def test_a_transfer_to_oneself_is_rejected_by_row():
    schedule = build_multitree(ring(3))
    routes = [[link] for link in schedule.route_links.tolist()]
    src, dst = int(schedule.src[4]), schedule.dst.copy()
    away = int(schedule.topology.ports(src)[0])
    routes[4] = [away, int(schedule.topology.reverse[away])]
    dst[4] = src
    there_and_back = with_routes(replace(schedule, dst=dst), routes)
    rejected(r"Row 4 .*: route must be a path from src to another", there_and_back)


def test_an_order_that_is_taken_or_leaves_a_gap_is_rejected_by_row():
    schedule = build_multitree(torus(4, 4))
    row = int(np.flatnonzero(schedule.order == 1)[0])
    for wrong in (0, 2, 7):
        order = schedule.order.copy()
        order[row] = wrong
        rejected(r"Row \d+ .*: order must number the siblings", replace(schedule, order=order))
    order = schedule.order.copy()
    order[-1] = 1
    rejected(rf"Row {schedule.num_transfers - 1} .*: order must", replace(schedule, order=order))


def test_roots_where_the_collective_does_not_need_them_are_rejected():
    rooted = build(torus(3, 3), "multitree", "broadcast", 4)
    rejected(r"Row 0 .*: broadcast must .* rooted at rank 3, not flow 0", replace(rooted, root=3))
    gathered = replace(rooted, collective="all_gather", root=None)
    rejected(r"all_gather must have .*, not 4 flows for 9 ranks", gathered)
    scattered = build(torus(3, 3), "multitree", "reduce_scatter")
    reduced = replace(scattered, collective="reduce", root=0)
    rejected(r"Row \d+ .*flow 1, .*: reduce must have every flow .* not flow 1", reduced)


def test_contention_is_reported_and_no_error():
    schedule = build_multitree(torus(4, 4))
    rows = rows_of(schedule)
    rows[:, 0] = np.unique(rows[:, 0] * 16 + rows[:, 2], return_inverse=True)[1]
    spread = rebuilt(schedule, rows, torus(4, 4))
    assert verify(spread).contention_free
    star = [[0, Op.REDUCE, flow, child, 0] for flow in (0, 1) for child in (1, 2)]
    report = verify(by_hand(ring(3), star, "reduce", 0))
    assert (report.contention_free, report.max_link_load, report.max_siblings) == (False, 2, 2)


@pytest.mark.long
@given(topologies(), st.integers(0, 10**6), st.sampled_from(COLLECTIVES))
@settings(deadline=None, print_blob=True, max_examples=400)
def test_whatever_verify_accepts_after_random_changes_does_its_collective(
    topology, seed, collective
):
    rng = np.random.default_rng(seed)
    root = int(rng.integers(topology.num_ranks)) if collective in ROOTED else None
    schedule = build(topology, "multitree", collective, root)
    rows = rows_of(schedule)
    limits = [rows[:, 0].max() + 2, 2, schedule.num_flows, topology.num_ranks, topology.num_ranks]
    for _ in range(int(rng.integers(1, 4))):
        row, field = int(rng.integers(len(rows))), int(rng.integers(5))
        rows[row, field] = rng.integers(limits[field])
    assume((rows[:, 3] != rows[:, 4]).all())
    broken = rebuilt(schedule, rows)
    try:
        verify(broken)
    except ScheduleError:
        return
    assert does_its_collective(broken)


@pytest.mark.slow
def test_256_ranks_are_verified_free_of_contention():
    report = verify(build_multitree(mesh(16, 16)))
    assert report.contention_free
    assert report.num_messages == 2 * 256 * 255


def test_termination_is_steps_times_the_longest_messages_in_a_row_and_the_way():
    schedule = build_multitree(torus(4, 4))
    siblings = int(schedule.order.max()) + 1
    figures = {"num_flits": 65_536, "latency_cycles": 150, "overhead_cycles": 20}
    per_step = siblings * (4097 + 20) + 150
    assert termination_cycles(schedule, **figures) == 8 * per_step
    late = termination_cycles(schedule, **figures, max_skew_cycles=10_000)
    assert late == 8 * per_step + 10_000
    slow = termination_cycles(schedule, **figures, cycles_per_flit=3)
    assert slow == 8 * (siblings * (3 * 4097 + 20) + 150)
    assert termination_cycles(build(ring(4), "ring"), **figures) == 6 * (16_385 + 20 + 150)
    assert termination_cycles(schedule, num_flits=0, latency_cycles=0, overhead_cycles=0) == 32
    for name in figures:
        with pytest.raises(ValueError, match="must be at least 0, not -1"):
            termination_cycles(schedule, **figures | {name: -1})


def test_messages_that_meet_on_routes_of_several_links_may_all_go_one_after_the_other():
    figures = {"num_flits": 160, "latency_cycles": 100, "overhead_cycles": 9}
    free = build(parse_topology("fat_tree:4x4"), "multitree")
    assert termination_cycles(free, **figures) == 30 * (1 + 10 + 9 + 4 * 100)
    direct = by_hand(ring(6), [[0, 1, 0, 0, dst] for dst in range(1, 6)], "broadcast", 0)
    assert direct.max_link_load == 3
    assert termination_cycles(direct, **figures) == 5 * (1 + 160 + 9 + 3 * 100)
