"""A rank's program has each row and arrival once, in an order without deadlock."""

import itertools
from collections import defaultdict

import numpy as np
import pytest

from multitree import build, parse_topology

pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

from multitree.host.torch.layouts import Kind, Layouts, planner_of, program_of
from multitree.topology.collectives import Op
from multitree.topology.schedules.execute import flow_ranges

CASES = [
    ("torus:2x2", "multitree", "all_reduce"),
    ("mesh:2x3", "multitree", "reduce_scatter"),
    ("full:5", "symmetric", "all_gather"),
    ("fat_tree:2x4", "double_tree", "all_reduce"),
    ("ring:8", "swing", "all_reduce"),
    ("torus:3x3", "bidirectional_ring", "all_reduce"),
]


@pytest.fixture(params=CASES, ids="-".join)
def schedule(request):
    spec, algorithm, collective = request.param
    return build(parse_topology(spec), algorithm, collective)


@pytest.fixture
def made(schedule):
    """Programs of all ranks."""
    return [program_of(schedule, rank) for rank in range(schedule.topology.num_ranks)]


def test_every_row_is_sent_once_and_taken_once(schedule, made):
    columns = (schedule.op, schedule.flow, schedule.src, schedule.dst, schedule.step)
    rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
    for kind in Kind:
        found = []
        for program in made:
            for action in program.actions:
                if action.kind == kind:
                    ends = (program.rank, action.peer)
                    ends = ends if kind == Kind.SEND else ends[::-1]
                    found.append((action.op, action.flow, *ends, action.step))
        assert sorted(found) == rows


def test_a_send_follows_all_earlier_arrivals_of_its_flow(schedule, made):
    for program in made:
        for place, action in enumerate(program.actions):
            if action.kind == Kind.SEND:
                later = [a for a in program.actions[place + 1 :] if a.flow == action.flow]
                assert not any(a.kind == Kind.RECEIVE and a.step < action.step for a in later)


def test_contributions_are_taken_in_the_order_of_the_schedule(schedule, made):
    order = {
        row: (int(schedule.step[i]), int(schedule.order[i]))
        for i, row in enumerate(zip(schedule.flow, schedule.src, schedule.dst, strict=True))
        if schedule.op[i] == Op.REDUCE
    }
    for program in made:
        taken = defaultdict(list)
        for action in program.actions:
            if action.kind == Kind.RECEIVE and action.op == Op.REDUCE:
                taken[action.flow].append(order[action.flow, action.peer, program.rank])
        assert all(each == sorted(each) for each in taken.values())


def test_programs_run_to_their_end_when_sends_never_wait(schedule, made):
    """Some rank can always go on: nothing is taken that was not sent, and all end."""
    sent, places = set(), [0] * len(made)
    while any(place < len(p.actions) for place, p in zip(places, made, strict=True)):
        moved = False
        for program in made:
            rank = program.rank
            while places[rank] < len(program.actions):
                action = program.actions[places[rank]]
                row = (action.op, action.flow, action.step)
                if action.kind == Kind.SEND:
                    sent.add((*row, rank, action.peer))
                elif (*row, action.peer, rank) not in sent:
                    break
                places[rank] += 1
                moved = True
        assert moved, "deadlock"


def test_the_last_action_of_a_flow_and_the_end_of_a_sum_are_marked(schedule, made):
    roots = schedule.flow_roots
    for program in made:
        for flow in range(schedule.num_flows):
            actions = [a for a in program.actions if a.flow == flow]
            assert [a.is_last for a in actions] == [a is actions[-1] for a in actions]
            ends = [a for a in actions if a.ends_sum]
            takes = [a for a in actions if a.kind == Kind.RECEIVE and a.op == Op.REDUCE]
            assert ends == (takes[-1:] if roots[flow] == program.rank else [])


def test_a_layout_cuts_a_buffer_as_execute_does_and_leaves_out_empty_flows():
    topology = parse_topology("torus:2x2")
    layouts = Layouts(planner_of(topology, "multitree"), 1)
    for n in (0, 1, 5, 17, 1000):
        layout = layouts.of_buffer("all_reduce", None, n, 4)
        bounds = flow_ranges(layout.schedule, n).tolist()
        right = [((b, e),) if b < e else () for b, e in itertools.pairwise(bounds)]
        assert list(layout.ranges) == right
        carried = {action.flow for action in layout.program.actions}
        assert carried == {flow for flow, slices in enumerate(right) if slices}
    one, same = (layouts.of_buffer("all_reduce", None, 17, 4) for _ in range(2))
    assert one is same


def test_a_layout_of_parts_gives_each_flow_the_part_of_its_root():
    topology = parse_topology("torus:2x2")
    layouts = Layouts(planner_of(topology, "multitree"), 0)
    sizes = (3, 0, 5, 2)
    layout = layouts.of_parts("reduce_scatter", sizes, 4)
    ends = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    for flow, root in enumerate(layout.program.roots):
        begin, end = ends[root], ends[root + 1]
        assert layout.ranges[flow] == (((begin, end),) if begin < end else ())
