"""The analytic engine as equations in the figures of its link model."""

import os
from dataclasses import replace

import numpy as np
import pytest

from multitree import LinkModel, build, exact, parse_topology
from multitree.sim.analytic.engine import analytic
from multitree.sim.analytic.link_buffers import LinkBuffers
from multitree.sim.analytic.table_rows import generations_of
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.algorithms.registry import COMPARED
from multitree.topology.collectives import Op
from multitree.topology.families.direct import fully_connected, mesh, ring, torus
from multitree.topology.lowering import lowered
from multitree.topology.networks.bounds import bound_cycles
from tests.topology.graphs import by_hand, copy_of, pair

MODELS = [
    LinkModel(),
    LinkModel(memory_read_cycles=18, memory_write_cycles=11, buffer_flits=2000),
    LinkModel(memory_read_cycles=1, memory_write_cycles=30),
]


def way(model, num_flits, op, latency=150):
    """From a head flit that nothing delays to the arrival of its message."""
    to_memory = model.receive_cycles + model.memory_write_cycles
    # Payload waits for its head's look-up, and for memory.
    cycles = max(model.memory_read_cycles + model.payload_cycles, model.head_cycles)
    cycles += num_flits - 1 + latency
    if op == Op.REDUCE:
        cycles += model.memory_read_cycles + model.fetch_cycles + model.add_cycles
    return cycles + to_memory + model.complete_cycles


def chain(topology, hops, flow_offsets=(0, 1)):
    """One flow handed on along ranks 0, 1, 2 and so on, one hop per step."""
    rows = [[hop, Op.GATHER, 0, hop, hop + 1] for hop in range(hops)]
    return by_hand(topology, rows, "broadcast", 0, flow_offsets=flow_offsets)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("num_flits", [2, 32, 1000])
def test_an_exchange_of_two_ranks_is_there_and_back_again(model, num_flits):
    n = num_flits // 2
    found = analytic(build_multitree(ring(2)), num_flits, model)
    there, back = way(model, n, Op.REDUCE), way(model, n, Op.GATHER)
    sent = model.start_cycles + there + model.dependency_cycles
    assert found.sent.tolist() == [[model.start_cycles] * 2 + [sent] * 2]
    assert found.arrived.tolist() == [[model.start_cycles + there] * 2 + [sent + back] * 2]
    assert found.done.tolist() == [sent + back + model.done_cycles] * 2
    assert found.cycles == sent + back + model.done_cycles


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("hops", [1, 5])
def test_a_chain_takes_its_hops_one_after_the_other(model, hops):
    found = analytic(chain(ring(8), hops), 100, model)
    cycles = hops * way(model, 100, Op.GATHER) + (hops - 1) * model.dependency_cycles
    assert found.cycles == model.start_cycles + cycles + model.done_cycles


@pytest.mark.parametrize("hops", [1, 5])
@pytest.mark.parametrize("num_flits", [10, 16, 100])
def test_with_cut_through_a_hop_is_its_overhead_and_one_submessage(hops, num_flits):
    model = LinkModel(dependency="submessage")
    found = analytic(chain(ring(8), hops), num_flits, model)
    first = min(num_flits, model.submessage_flits)
    cycles = way(model, num_flits, Op.GATHER)
    cycles += (hops - 1) * (way(model, first, Op.GATHER) + model.dependency_cycles)
    assert found.cycles == model.start_cycles + cycles + model.done_cycles


@pytest.mark.parametrize(("num_flits", "num_packets"), [(0, 1), (16, 1), (17, 2), (160, 10)])
def test_a_packet_is_a_head_more_on_the_link_and_no_payload(num_flits, num_packets):
    packets = analytic(chain(ring(4), 1), num_flits, LinkModel(flow_control="packet"))
    message = analytic(chain(ring(4), 1), num_flits)
    assert packets.cycles == message.cycles + num_packets - 1
    assert packets.link_flits.tolist() == message.link_flits.tolist()


def test_messages_that_are_ready_follow_each_other_on_a_link():
    rows = [[step, Op.GATHER, step, 0, 1] for step in range(3)]
    schedule = by_hand(ring(2), rows, "broadcast", 0)
    model = LinkModel()
    sent = analytic(schedule, 300, model).sent[0]
    first_tail = model.start_cycles + model.memory_read_cycles + model.payload_cycles + 99
    assert sent[0] == model.start_cycles and sent[1] == first_tail + 1
    # Reads go on meanwhile, so that heads are all that is between payload.
    assert sent[2] - sent[1] == 100 + 1


def test_a_late_sibling_costs_one_submessage_not_a_chunk():
    """All children of a root send at once; each is added behind the one before."""
    model = LinkModel()
    rows = [[0, Op.REDUCE, 0, src, 0] for src in (1, 2, 3)]
    schedule = by_hand(fully_connected(4), rows, "reduce", 0)
    found = analytic(schedule, 160, model).arrived[0]
    assert found[0] == model.start_cycles + way(model, 160, Op.REDUCE)
    settle = model.memory_read_cycles + model.fetch_cycles + model.add_cycles
    settle += model.memory_write_cycles + model.complete_cycles
    behind = settle + model.sibling_cycles + model.submessage_flits - 1
    assert np.diff(found[np.argsort(schedule.order)]).tolist() == [behind, behind]


def test_a_link_of_half_the_speed_takes_twice_as_long_per_flit():
    cycles = [
        analytic(chain(topology, 1), flits).cycles
        for topology in (ring(2), pair(8.0))
        for flits in (100, 500)
    ]
    assert cycles[1] - cycles[0] == 400 and cycles[3] - cycles[2] == 800


def test_a_buffer_shorter_than_the_round_trip_sends_one_buffer_per_round_trip():
    model = LinkModel(buffer_flits=100)
    around = 2 * 150 + model.receive_cycles + model.credit_cycles
    cycles = [analytic(chain(ring(2), 1), flits, model).cycles for flits in (1050, 2050)]
    assert cycles[1] - cycles[0] == 10 * around


def one_way(sizes, *, rows=None, topology=None):
    """A flow of each size, sent from rank 0 to 1 in steps of their own unless rows are given."""
    usual = [[step, Op.GATHER, step, 0, 1] for step in range(len(sizes))]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return by_hand(topology or ring(2), rows or usual, flow_offsets=offsets)


def test_credits_count_flits_not_messages():
    """Many short messages wait for places as one long message of as many flits does."""
    model = LinkModel(buffer_flits=100)
    many = analytic(one_way([20] * 60), 20 * 60, model).cycles
    one = analytic(one_way([21 * 60]), 21 * 60, model).cycles
    assert abs(many / one - 1) < 0.02 and one > 12 * 300


def test_a_row_is_read_only_when_its_port_s_queue_has_a_place(monkeypatch):
    """Six messages for one port wait; the table is stuck before the row of the other port."""
    rows = [[0, Op.REDUCE, 0, 1, 0]]
    rows += [[1, Op.REDUCE, 0, 0, 2], *([2 + k, Op.GATHER, 1 + k, 0, 2] for k in range(5))]
    rows += [[9, Op.GATHER, 6, 0, 1]]
    schedule = one_way([10] * 7, rows=rows, topology=fully_connected(3))

    def sent(port_queue_rows):
        monkeypatch.setattr(LinkModel, "port_queue_rows", port_queue_rows)
        found = analytic(schedule, 70, LinkModel())
        return found.sent[0][-1], found.arrived[0][0]

    last, awaited = sent(4)
    assert last > awaited
    last, awaited = sent(10)
    assert last < awaited


def test_a_message_without_payload_waits_until_all_before_it_is_in_memory():
    found = analytic(one_way([16, 0]), 16).arrived[0]
    assert found[1] == found[0] + 1 + LinkModel().empty_cycles


def test_a_contribution_ends_behind_a_sibling_that_came_slowly():
    base = fully_connected(3)
    bandwidth = np.where((base.links == [1, 0]).all(axis=1), 4.0, 16.0)
    slow = copy_of(base, bandwidth)
    rows = [[0, Op.REDUCE, 0, 1, 0], [1, Op.REDUCE, 0, 2, 0]]
    model = LinkModel()
    found = analytic(one_way([100], rows=rows, topology=slow), 100, model).arrived[0]
    settle = model.memory_read_cycles + model.fetch_cycles + model.add_cycles
    settle += model.memory_write_cycles + model.complete_cycles
    last_submessage = 99 % model.submessage_flits
    assert found[1] - found[0] == settle + model.sibling_cycles + last_submessage


@pytest.mark.parametrize("spec", ["torus:4x4", "mesh:4x4", "hypercube:4"])
def test_larger_buffers_and_smaller_sizes_never_take_longer(spec):
    schedule = build_multitree(parse_topology(spec))
    depths, sizes = (16, 64, 200, 400, 1000, 4000), (0, 1, 16, 100, 1000, 5000, 30_000)
    cycles = np.array(
        [[analytic(schedule, n, LinkModel(buffer_flits=d)).cycles for n in sizes] for d in depths]
    )
    assert (np.diff(cycles, axis=0) <= 0).all() and (np.diff(cycles, axis=1) >= 0).all()
    assert (cycles[-2] == cycles[-1]).all()


@pytest.mark.parametrize("spec", ["torus:4x4", "torus:8x8", "mesh:4x4", "ring:5"])
@pytest.mark.parametrize("algorithm", COMPARED)
def test_no_prediction_beats_the_bound(spec, algorithm):
    schedule = build(parse_topology(spec), algorithm)
    for num_flits in (1, 2048, 65_536):
        bound = bound_cycles(schedule.topology, num_flits, latency_cycles=150.0)
        assert analytic(schedule, num_flits).cycles >= bound


@pytest.mark.parametrize("spec", ["torus:4x4", "mesh:5x3", "full:6"])
def test_messages_wait_for_their_dependencies_and_links_carry_one_at_a_time(spec):
    schedule = build_multitree(parse_topology(spec))
    found = analytic(schedule, 5000)
    sent, arrived = found.sent[0], found.arrived[0]
    link = schedule.route_links[schedule.route_offsets[:-1]]
    size = np.diff(schedule.chunks(5000))[schedule.flow]
    for row in range(schedule.num_transfers):
        needed = (schedule.flow == schedule.flow[row]) & (schedule.dst == schedule.src[row])
        needed &= schedule.step < schedule.step[row]
        assert (arrived[needed] < sent[row]).all()
        next_on_link = np.flatnonzero((link == link[row]) & (sent > sent[row]))
        assert (sent[next_on_link] > sent[row] + size[row]).all()
    payload = np.bincount(link, size, schedule.topology.num_links)
    assert (found.link_flits == payload).all()


def test_the_4x4_torus_sums_a_mebibyte_in_less_than_the_published_45909_cycles():
    assert analytic(build_multitree(torus(4, 4)), 65_536).cycles < 45_909


def test_messages_without_payload_touch_no_memory():
    model = LinkModel()
    found = analytic(build_multitree(ring(2)), 0, model)
    way = 150 + model.receive_cycles + model.head_cycles + model.empty_cycles
    sent = model.start_cycles + way + model.dependency_cycles
    assert found.arrived.tolist() == [[model.start_cycles + way] * 2 + [sent + way] * 2]


def test_nothing_to_send_still_takes_the_messages_that_say_so():
    found = analytic(build_multitree(mesh(3, 3)), 0)
    assert found.link_flits.sum() == 0 and found.cycles > 300


def test_routes_through_ranks_are_timed_over_switches_beside_them():
    schedule = build(ring(5), "double_tree")
    through = lowered(schedule)
    assert through.topology.num_switches == 5
    found, wanted = analytic(schedule, 100), analytic(through, 100)
    assert found.schedule is schedule
    assert (found.arrived == wanted.arrived).all() and found.cycles == wanted.cycles
    assert found.link_flits.shape == (schedule.topology.num_links,)


@pytest.mark.parametrize(
    ("topology", "buffer_flits", "memory_cycles", "num_flits"),
    [
        (ring(2), 4, 208, 300),
        (ring(2), 5, 208, 300),
        (ring(4), 64, 508, 2048),
        (torus(2, 2), 128, 508, 2048),
        (torus(2, 2), 128, 508, 2052),
    ],
)
def test_a_message_of_whole_buffers_waits_for_memory_in_each(
    topology, buffer_flits, memory_cycles, num_flits
):
    schedule = build(topology, "ring" if topology.num_ranks == 2 else "multitree")
    model = LinkModel(buffer_flits=buffer_flits).with_memory(memory_cycles)
    found = analytic(schedule, num_flits, model)
    assert found.cycles == exact(schedule, num_flits, model).cycles


def longest_chains(schedule, sibling):
    """Level of every transfer in its step: what it waits for there, followed to the end."""
    waits = [[] for _ in range(schedule.num_transfers)]
    last = {}
    for row in range(schedule.num_transfers):
        key = schedule.step[row], schedule.src[row]
        waits[row] += [last[key]] if key in last else []
        last[key] = row
        before = sibling[row]
        if before >= 0 and schedule.step[before] == schedule.step[row]:
            waits[row].append(before)
    level = np.zeros(schedule.num_transfers, int)
    for _ in range(schedule.num_transfers):
        for row, rows in enumerate(waits):
            level[row] = max([0, *(level[each] + 1 for each in rows)])
    return level


@pytest.mark.parametrize("spec", ["mesh:3x3", "full:5", "torus:4x4", "mesh:4x4"])
@pytest.mark.parametrize("algorithm", ["multitree", "forest", "ring"])
def test_a_generation_is_all_transfers_of_a_step_behind_chains_of_one_length(spec, algorithm):
    topology = parse_topology(spec)
    schedule = build(topology, algorithm, cost_model=LinkModel().cost_model(topology, 1 << 12))
    generations, sibling = generations_of(schedule)
    level = longest_chains(schedule, sibling)
    found = [{(int(schedule.step[row]), int(level[row])) for row in rows} for rows in generations]
    assert all(len(each) == 1 for each in found)
    assert [min(each) for each in found] == sorted(
        {(int(step), int(at)) for step, at in zip(schedule.step, level, strict=True)}
    )
    assert sorted(np.concatenate(generations)) == list(range(schedule.num_transfers))
    for row in np.flatnonzero(sibling >= 0):
        before = sibling[row]
        assert schedule.flow[row] == schedule.flow[before]
        assert schedule.dst[row] == schedule.dst[before]
        key = [(schedule.step[r], schedule.order[r]) for r in (before, row)]
        assert key[0] < key[1]


def test_transfers_that_wait_in_a_circle_are_refused():
    schedule = by_hand(
        parse_topology("full:3"), [(0, Op.REDUCE, 0, src, 2) for src in (0, 1)], "reduce", 2
    )
    swapped = replace(schedule, order=schedule.order[::-1].copy())
    lane = np.zeros(2, np.int32)
    for each in (schedule, swapped):
        first, second = each.order
        if first < second:
            assert [len(rows) for rows in generations_of(each, lane)[0]] == [1, 1]
        else:
            with pytest.raises(ValueError, match="wait in a circle"):
                generations_of(each, lane)
    assert schedule.order.tolist() != swapped.order.tolist()


SEED = int(os.environ.get("MULTITREE_SEED", "1"))


@pytest.mark.parametrize("seed", range(SEED, SEED + 40))
def test_a_flit_s_place_is_left_by_the_flit_a_buffer_s_depth_before_it(seed):
    """Asked for head, first flit and the rest of a message, as the engine asks, on three links."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    depth, num_links, num_messages = int(rng.integers(2, 9)), 3, 36
    size = rng.integers(0, 2 * depth + 1, num_messages)
    link = rng.integers(0, num_links, num_messages)
    buffers = LinkBuffers(link, size.astype(np.float64), num_links, depth)
    asked = [np.zeros(num_messages), np.ones(num_messages), size % depth]
    places = [buffers.places(flit) for flit in (0, 1, (size % depth).astype(np.float64))]
    # When each flit of a link, heads included, left its place.
    left, time = [[] for _ in range(num_links)], [0.0] * num_links
    for message in range(num_messages):
        row, mine = np.array([message]), left[link[message]]
        for flit, needed in zip(asked, places, strict=True):
            wanted = len(mine) + int(flit[message]) - depth
            found = float(buffers.left(row, needed)[0])
            if 0 <= wanted < len(mine):
                assert found == pytest.approx(mine[wanted]), (message, flit[message])
            else:
                assert found < 0
        start = time[link[message]] + float(rng.integers(2, 6))
        end = start + max(size[message] - 1, 0)
        buffers.add(row, np.array([start]), np.array([end]))
        mine += [start - 1, *(start + k for k in range(size[message]))]
        time[link[message]] = end
