"""Shared links in equations and against the RTL; on them messages go whole."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import ScheduleError, Topology, TopologyError, build, parse_topology, verify
from multitree.sim.analytic.engine import analytic
from multitree.sim.analytic.reduction import drained_at
from multitree.sim.choice import Chooser
from multitree.sim.rtl.loads import Loader, Upcoming
from multitree.sim.timing.inputs import check_store_and_forward, shares_links
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.collectives import Op
from multitree.topology.lowering import lowered, unrolled
from tests.refusals import refuses
from tests.sim.emulated import SWITCHED, checked, switched_session
from tests.sim.rtl.test_switched import CASES, schedule_of
from tests.topology.graphs import by_hand

PAIR = Topology("pair", 2, 1, [[0, 2], [1, 2], [2, 0], [2, 1]], 16.0, 150.0)
STAR = Topology("star", 5, 1, [[r, 5] for r in range(5)] + [[5, r] for r in range(5)], 16.0, 20.0)


def one_way(num_flits, model):
    """Cycles of the first message of a pair around one switch: sent, arrived."""
    trace = analytic(build(PAIR, "ring"), 2 * num_flits, model)
    return int(trace.sent[0, 0]), int(trace.arrived[0, 0])


@pytest.mark.parametrize("num_flits", [1, 16, 500])
def test_a_contribution_takes_its_way_its_claim_its_length_and_its_addition(num_flits):
    model = LinkModel()
    way = 150 + model.switch_cycles + 150 + model.receive_cycles - 1
    place = 1 + model.reservation_cycles + model.judge_cycles + model.open_cycles
    add = model.memory_read_cycles + model.fetch_cycles + model.add_cycles
    write = model.memory_write_cycles + model.complete_cycles
    noted = model.note_cycles + model.judge_cycles
    sent, arrived = one_way(num_flits, model)
    assert sent == model.start_cycles
    assert arrived - sent == way + place + num_flits - 1 + add + write + noted


@pytest.mark.parametrize(
    "name", ["switch_cycles", "reservation_cycles", "open_cycles", "note_cycles"]
)
def test_a_figure_that_grows_by_seven_makes_a_message_seven_cycles_later(name, monkeypatch):
    model = LinkModel()
    before = one_way(300, model)[1]
    monkeypatch.setattr(LinkModel, name, getattr(model, name) + 7)
    assert one_way(300, model)[1] - before == 7


def test_a_write_that_takes_seven_cycles_more_makes_a_message_as_much_later():
    slower = LinkModel(memory_write_cycles=LinkModel().memory_write_cycles + 7)
    assert one_way(300, slower)[1] - one_way(300, LinkModel())[1] == 7


@pytest.mark.long
@pytest.mark.parametrize(("spec", "algorithm"), CASES)
def test_cycles_on_shared_links_are_within_four_percent_of_the_rtl(spec, algorithm):
    schedule = schedule_of(spec, algorithm)
    with switched_session(lowered(schedule).topology) as session:
        for num_flits in (2, 75, 800):
            buffers = np.ones((schedule.topology.num_ranks, 4 * num_flits), np.float32)
            (trace,) = checked(session, schedule, [buffers])
            found = analytic(schedule, num_flits, SWITCHED)
            assert abs(found.cycles / trace.cycles - 1) < 0.04
            assert (found.link_flits == trace.link_flits).all()
            assert np.abs(found.arrived - trace.arrived).max() < 0.05 * trace.cycles


def test_messages_that_share_a_link_take_turns_and_nothing_is_faster_than_the_links():
    schedule = build(parse_topology("bigraph:4x4"), "halving_doubling")
    assert verify(schedule).max_link_load > 1
    for num_flits in (16, 1600, 160_000):
        found = analytic(schedule, num_flits)
        assert found.cycles > found.link_flits.max()


def test_a_root_takes_what_all_others_send_in_the_time_of_its_one_link():
    found = analytic(build(STAR, "multitree", "reduce", root=0), 4000)
    assert 4000 < found.cycles < 4000 * 4.1
    assert found.cycles > found.link_flits.max()


def test_a_size_of_1_gib_per_rank_takes_no_more_events_than_a_small_one():
    schedule = build(parse_topology("fat_tree:4x4"), "multitree")
    num_flits = 2**26
    found = analytic(schedule, num_flits)
    wanted = 2 * 15 * (num_flits // 16)
    assert wanted < found.cycles < 1.001 * wanted


def test_the_same_schedule_has_the_same_times_every_time():
    schedule = build(parse_topology("dgx2"), "multitree")
    first, second = (analytic(schedule, 3000) for _ in range(2))
    assert (first.sent == second.sent).all() and (first.arrived == second.arrived).all()


@pytest.mark.slow
def test_a_slow_link_paces_what_goes_over_it_as_in_the_rtl():
    fast = schedule_of("fat_tree:2x2", "ring").topology
    speeds = np.where(np.arange(fast.num_links) == 1, 4.0, 16.0)
    slow = replace(fast, bandwidth_gbytes_per_s=speeds)
    schedule = build(slow, "ring")
    found, usual = (analytic(build(each, "ring"), 800, SWITCHED) for each in (slow, fast))
    assert found.cycles > 4 * found.link_flits[1] > usual.cycles
    with switched_session(slow) as session:
        (trace,) = checked(session, schedule, [np.ones((4, 3200), np.float32)])
    assert abs(found.cycles / trace.cycles - 1) < 0.02


def test_a_broadcast_sends_heads_the_other_way_first_which_are_no_transfers():
    schedule = build(parse_topology("fat_tree:2x2"), "multitree", "broadcast", root=1)
    found = analytic(schedule, 640)
    assert found.sent.shape == (1, schedule.num_transfers)
    assert found.sent.min() == LinkModel().start_cycles or found.sent.min() > 300


def test_staged_flits_go_when_nobody_else_reads_and_nothing_else_comes_in():
    assert drained_at(0.0, 50, [], [], 8) == 50
    assert drained_at(0.0, 50, [(0.0, 30.0)], [], 8) == 80
    assert drained_at(0.0, 50, [], [(10.0, 30.0)], 8) == 70
    # What was read ahead goes while others read: 8 of the flits that the reducer kept waiting.
    assert drained_at(0.0, 50, [(30.0, 90.0)], [(10.0, 30.0)], 8) == 90 + 50 - 10 - 8


@pytest.mark.slow
def test_in_lockstep_cycles_are_within_four_percent_of_the_rtl_too():
    """Of a schedule in waves, too, written out for interfaces."""
    topology, num_flits = parse_topology("fat_tree:2x2"), 900
    cost_model = SWITCHED.cost_model(topology, 1 << 16)
    schedule = replace(build(topology, "forest", cost_model=cost_model), num_waves=3)
    found = analytic(schedule, num_flits, SWITCHED, lockstep=True)
    written_out = unrolled(schedule)
    with switched_session(topology) as session:
        buffers = np.ones((topology.num_ranks, 4 * num_flits), np.float32)
        (trace,) = checked(session, written_out, [buffers], lockstep=True)
    assert abs(found.cycles / trace.cycles - 1) <= 0.04
    assert analytic(written_out, num_flits, SWITCHED, lockstep=True).cycles == found.cycles


def test_in_lockstep_no_step_begins_before_the_time_of_those_before_it():
    schedule = build(STAR, "multitree")
    model = LinkModel()
    step = model.estimated_step_cycles(schedule, 500)
    assert step == 100 + 1 + 20
    trace = analytic(schedule, 500, model, lockstep=True)
    # Rows of later steps are in hand before they may go, so that reading takes them no cycle.
    begins = model.start_cycles - model.row_cycles + 1
    assert (trace.sent[0] >= begins + schedule.step * step).all()
    assert (analytic(schedule, 500, model).sent[0] < trace.sent[0]).any()


@pytest.mark.parametrize(
    ("fast", "slow", "cycles"),
    [(16.0, 8.0, 101), (16.0, 32 / 3, 51), (8.0, 8.0, 202), (4.0, 4.0, 404), (8.0, 4.0, 202)],
)
def test_in_lockstep_a_step_is_what_each_link_is_held_for_by_builders(fast, slow, cycles):
    speeds = np.where(STAR.links.min(axis=1) > 0, fast, slow)
    schedule = build(replace(STAR, bandwidth_gbytes_per_s=speeds), "multitree")
    assert abs(LinkModel().estimated_step_cycles(schedule, 500) - 20 - cycles) <= 1


def test_a_rank_whose_link_has_no_reverse_is_named():
    links = [(0, 3), (3, 1), (1, 3), (3, 2), (2, 3), (1, 0)]
    schedule = build(Topology("one way", 3, 1, links, 16.0, 20.0), "multitree")
    refuses(TopologyError, r"link \d into rank \d must have a reverse", analytic, schedule, 100)


def test_messages_that_wait_in_a_circle_are_refused_not_left_out():
    schedule = build(parse_topology("ring:8"), "swing")
    one_class = replace(schedule, route_classes=np.zeros_like(schedule.route_classes))
    with pytest.raises(ScheduleError, match="must not wait in a circle"):
        analytic(one_class, 100_000, LinkModel(buffer_flits=16))


def gathered(star):
    """All others send rank 0 their contributions at once, rank 1 in step 0 and so on."""
    return by_hand(star, [[rank - 1, Op.REDUCE, 0, rank, 0] for rank in range(1, 5)], "reduce", 0)


def test_of_heads_that_wait_for_a_link_the_oldest_goes_first():
    # The youngest one comes first and has the link; meanwhile the older ones come, oldest last.
    late = np.array(STAR.latency_ns)
    late[1:5] = [620.0, 420.0, 220.0, 20.0]
    far, model = replace(STAR, latency_ns=late), LinkModel(buffer_flits=2000)
    found = analytic(gathered(far), 4000, model)
    assert np.argsort(found.arrived[0]).tolist() == [0, 1, 2, 3]
    # Four go over the link one behind the other; only the first one was staged, and is added last.
    assert 5 * 4000 < found.cycles < 5.3 * 4000


def test_a_contribution_follows_another_flit_by_flit_once_that_is_in_memory():
    model = LinkModel()
    found = analytic(gathered(STAR), 4, model)
    in_memory = model.memory_read_cycles + model.fetch_cycles + model.add_cycles
    in_memory += model.memory_write_cycles + model.complete_cycles
    # An arrival may wait for a claim.
    apart = int(found.arrived[0, 3] - found.arrived[0, 0])
    assert abs(apart - 3 * in_memory) <= model.judge_cycles


def test_tables_with_room_for_more_rows_per_port_are_never_later(monkeypatch):
    schedule = build(parse_topology("dgx2"), "multitree")
    sent = []
    for rows in (1, 16):
        monkeypatch.setattr(LinkModel, "port_queue_rows", rows)
        sent.append(analytic(schedule, 65_536, LinkModel()).sent)
    short, long = sent
    # Rows behind one for a port that stands still are not even read.
    assert (short - long).max() > 10_000


@pytest.mark.parametrize(
    ("spec", "algorithm", "shared"),
    [
        ("torus:4x4", "multitree", False),
        ("ring:8", "ring", False),
        ("ring:8", "swing", True),
        ("torus:4x4", "double_tree", True),
        ("fat_tree:2x2", "multitree", True),
    ],
)
def test_links_are_shared_where_a_route_takes_several(spec, algorithm, shared):
    assert shares_links(build(parse_topology(spec), algorithm)) is shared


def test_interfaces_of_a_network_with_a_switch_share_links_even_if_no_route_takes_it():
    links = [[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]]
    mixed = Topology("mixed", 2, 1, links, 16.0, 150.0)
    assert (np.diff(build(mixed, "multitree").route_offsets) == 1).all()
    assert shares_links(build(mixed, "multitree"))
    assert Chooser(mixed, LinkModel()).choose(64).best.dependency == "chunk"


@pytest.mark.parametrize(
    ("less", "says"),
    [
        ({"dependency": "submessage"}, "dependency must be chunk where links are shared, not 'sub"),
        ({"flow_control": "packet"}, "flow_control must be message where links are shared, not 'p"),
    ],
)
def test_less_than_whole_messages_is_refused_before_anything_is_loaded(less, says):
    schedule, model = build(parse_topology("fat_tree:2x2"), "multitree"), LinkModel(**less)
    config = config_for(schedule.topology, model, **least_sizes(schedule, 8))
    loader = Loader(schedule.topology, config, model, MemoryTiming())
    queued = Upcoming(schedule, 32, "int32")
    refuses(ScheduleError, f"fat_tree:2x2: {says}", loader.load, queued)
    refuses(ScheduleError, says, check_store_and_forward, schedule, model)
    refuses(ScheduleError, says, analytic, schedule, 10, model)
    check_store_and_forward(schedule, LinkModel())


def test_a_choice_of_less_than_whole_messages_leaves_out_who_shares_links():
    topology = parse_topology("ring:8")
    problems = Chooser(topology, LinkModel(), dependencies=["submessage"]).choose(64).problems
    assert "dependency must be chunk where links are shared" in problems["swing"]
    problems = Chooser(topology, LinkModel(flow_control="packet")).choose(64).problems
    assert "flow_control must be message where links are shared" in problems["swing"]
