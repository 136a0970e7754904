"""Generations are the longest chains of transfers that wait for each other."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import LinkModel, build, parse_topology
from multitree.sim.analytic.table_rows import generations_of
from multitree.topology.collectives import Op
from tests.topology.graphs import by_hand


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


@pytest.mark.parametrize("spec", ["mesh:3x3", "full:5"])
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
