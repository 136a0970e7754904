"""Times of links that forward, as equations in the figures of the link model."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import LinkModel, ScheduleError, build, fat_tree, fully_connected, mesh
from multitree.sim.analytic.engine import analytic
from multitree.sim.analytic.forwarding_links import ForwardingLinks
from multitree.sim.analytic.table_rows import TableRows
from multitree.topology.collectives import Op
from tests.topology.graphs import by_hand

MODEL = LinkModel(dependency="submessage", forward_flits=64)
LATENCY = 150


def chain(collective, num_ranks):
    return build(mesh(num_ranks), "multitree", collective, 0)


@pytest.mark.parametrize("num_ranks", [2, 6])
@pytest.mark.parametrize("num_flits", [1, 300])
def test_a_result_takes_its_heads_way_and_its_flits_follow(num_ranks, num_flits):
    hops, model = num_ranks - 1, MODEL
    head = LATENCY + model.receive_cycles + model.head_cycles + model.queue_cycles
    cycles = (
        model.start_cycles + model.piped_cycles + hops * head + (hops - 1) * model.follow_cycles
    )
    cycles += num_flits - 1 + model.replaced_cycles
    cycles += model.memory_write_cycles + model.acknowledged_cycles + model.done_cycles
    assert analytic(chain("broadcast", num_ranks), num_flits, model).cycles == cycles


@pytest.mark.parametrize("num_flits", [1, 300])
def test_a_contribution_takes_the_adder_at_each_hop(num_flits):
    model, cycles = MODEL, {}
    for ranks in (4, 7):
        cycles[ranks] = analytic(chain("reduce", ranks), num_flits, model).cycles
    hop = LATENCY + model.receive_cycles + model.add_cycles + model.added_cycles
    assert cycles[7] - cycles[4] == 3 * (hop + model.queue_cycles + model.forward_cycles)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_memory_counts_once_and_not_at_every_hop(collective):
    schedule, steady = chain(collective, 6), analytic(chain(collective, 6), 300, MODEL).cycles
    writes = replace(MODEL, memory_write_cycles=300)
    assert analytic(schedule, 300, writes).cycles == steady + 300 - MODEL.memory_write_cycles
    reads = replace(MODEL, memory_read_cycles=300)
    assert steady < analytic(schedule, 300, reads).cycles <= steady + 300


def test_a_sum_follows_the_one_that_it_is_added_to_flit_by_flit():
    schedule = by_hand(
        fully_connected(4), [[0, Op.REDUCE, 0, child, 0] for child in (1, 2, 3)], "reduce", 0
    )
    arrived = np.sort(analytic(schedule, 500, MODEL).arrived[0])
    behind = MODEL.forward_cycles + 1 + MODEL.add_cycles + MODEL.added_cycles
    # The last one's writes wait for the acknowledgements of those before them besides.
    assert np.diff(arrived).tolist() == [behind] * 2


def test_what_is_kept_no_more_is_read_from_memory():
    schedule, start = chain("reduce", 3), np.zeros(3)
    table = TableRows(schedule, MODEL, start)
    timing = ForwardingLinks(schedule, 10, MODEL, table, start, repeats=False)
    late = MODEL.forward_flits + MODEL.found_cycles
    known = np.array([100.0, 100.0, 100.0])
    asked = np.array([50.0, 110.0, 100.0 + late])
    read = asked[2] + MODEL.found_cycles + MODEL.memory_read_cycles + MODEL.operand_cycles
    taken = timing._taken_from(known, asked)
    assert taken.tolist() == [100.0, 110.0 + MODEL.found_cycles, read]


def test_whole_chunks_are_waited_for_in_memory():
    model = replace(MODEL, dependency="chunk")
    slow = replace(model, memory_write_cycles=104)
    schedule = chain("broadcast", 5)
    longer = analytic(schedule, 300, slow).cycles - analytic(schedule, 300, model).cycles
    assert longer == 4 * 100


def test_builders_count_a_hop_as_it_takes():
    topology = mesh(3)
    hop = LATENCY + MODEL.receive_cycles + MODEL.add_cycles + MODEL.added_cycles
    costs = MODEL.cost_model(topology, 300)
    assert set(costs.latency_cycles.tolist()) == {hop + MODEL.forward_cycles}
    slow = replace(MODEL, memory_read_cycles=100)
    assert slow.cost_model(topology, 300).latency_cycles.tolist() == costs.latency_cycles.tolist()
    chunks = replace(slow, dependency="chunk").cost_model(topology, 300)
    assert min(chunks.latency_cycles) > LATENCY + 2 * 100


def test_shared_links_are_refused_and_not_timed_as_if_they_did_not_forward():
    with pytest.raises(ScheduleError, match=r"fat_tree:2x2: forward_flits must be 0.*not 64"):
        analytic(build(fat_tree(2, 2), "multitree"), 100, MODEL)
