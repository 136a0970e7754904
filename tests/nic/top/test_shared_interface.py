"""Tests of whole interfaces on a shared link: two of them, with memories."""

from dataclasses import replace

import numpy as np
import pytest

from multitree.nic.driver.commands import ACKNOWLEDGE, START, RunSettings
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import compile_table
from multitree.topology.collectives import Op
from multitree.topology.schedules.execute import execute
from tests.nic.top import pair
from tests.nic.top.pair import by_hand, prepare, the_pair

CONFIG = Config(
    num_ports=1,
    table_depth=8,
    num_flows=4,
    buffer_flits=16,
    submessage_flits=4,
    memory_queue_flits=8,
    address_width=8,
    num_classes=1,
    max_children=2,
    dtypes=("float32",),
)
LANES = CONFIG.flit_bytes // 4
BASE = 5
# Two flows to each root, so that a rank sends while it takes in.
SCHEDULE = by_hand(
    [
        (flow // 2 + 2 * op, op, flow, (flow + op + 1) % 2, (flow + op) % 2)
        for flow in range(4)
        for op in (Op.REDUCE, Op.GATHER)
    ]
)


def as_words(flits):
    return [int.from_bytes(flit.tobytes(), "little") for flit in flits]


async def load(host, table):
    """Write a table and how to run it, and wait until it is checked."""
    limits = {"watchdog_cycles": 2000, "first_arrival_cycles": 5000}
    window = {"window_base": BASE, "window_flits": int(table.slots[-1])}
    await prepare(host, table, RunSettings(dtype="float32", **window, **limits))
    await host.committed()


def simulate(buffers, tables, script, stall):
    """Run a script of both hosts, loaded, and return both buffers in memory after it."""
    num_flits = buffers.shape[1] // LANES
    memories = [[0] * BASE + as_words(row.reshape(-1, LANES)) for row in buffers]

    async def loaded(host):
        await load(host, tables[host.rank])
        await script(host)

    given = {"pair": the_pair(CONFIG), "keep": True, "deadline_cycles": 100_000}
    pair.simulate(loaded, memories, stall=stall, late=9, **given)
    return [memory[BASE : BASE + num_flits] for memory in memories]


@pytest.mark.long
@pytest.mark.every_set
@pytest.mark.parametrize(
    ("num_flits", "stall"),
    [
        (27, "seldom"),
        (2, "often"),
        (8, "bursts"),
    ],
)
def test_both_ranks_end_with_the_sum_each_time_however_far_apart_they_start(num_flits, stall):
    """A length that divides nothing, two flows of four empty, and equal chunks."""
    rng = np.random.default_rng(num_flits)
    buffers = rng.standard_normal((2, num_flits * LANES)).astype(np.float32)
    wanted, times = buffers, 3
    for _ in range(times):
        wanted = execute(SCHEDULE, wanted)
    tables = [compile_table(SCHEDULE, rank, num_flits, CONFIG) for rank in range(2)]

    async def script(host):
        for number in range(times):
            await host.wait(300 * ((host.rank + number) % 2))
            await host.run()
            assert not (await host.status())["busy"]
            assert await host.read("SEQUENCE") == number + 1
            await host.write(ACKNOWLEDGE)

    results = simulate(buffers, tables, script, stall)
    assert results == [as_words(row.reshape(-1, LANES)) for row in wanted]


@pytest.mark.long
def test_a_table_finds_nothing_of_the_last_one_in_its_bank():
    """Which is that of two collectives ago, whose number has the same lowest bit."""
    num_flits, times = 4, 4
    buffers = np.random.default_rng(5).standard_normal((2, num_flits * LANES)).astype(np.float32)
    tables = [compile_table(SCHEDULE, rank, num_flits, CONFIG) for rank in range(2)]

    async def script(host):
        for number in range(times):
            if number:
                await load(host, tables[host.rank])
            await host.write(START)
            await host.interrupt()
            assert (await host.status())["fault"] == 0
            await host.write(ACKNOWLEDGE)

    results, wanted = simulate(buffers, tables, script, "never"), buffers
    for _ in range(times):
        wanted = execute(SCHEDULE, wanted)
    assert results == [as_words(row.reshape(-1, LANES)) for row in wanted]


@pytest.mark.slow
def test_a_contribution_that_comes_before_its_turn_is_staged_and_counted_and_added_in_its_turn():
    """Rank 1 contributes twice to the sum of rank 0, the second place first."""
    num_flits, values = 3, (1e8, 1.0)
    schedule = by_hand([(0, Op.REDUCE, 0, 1, 0), (1, Op.GATHER, 0, 0, 1)])
    root, leaf = (compile_table(schedule, rank, num_flits, CONFIG) for rank in range(2))
    root = replace(root, children=np.zeros((1, 2), int), slots=np.array([3, 9]))
    twice = {name: np.zeros(2, int) for name in ("op", "flow", "port", "stage", "vc_class")}
    twice |= {"step": np.arange(2), "order": np.array([1, 0]), "route": leaf.route.repeat(2)}
    buffers = np.array([[value] * num_flits * LANES for value in values], np.float32)
    staged = {}

    async def script(host):
        await host.write(START)
        await host.interrupt()
        assert (await host.status())["fault"] == 0
        staged[host.rank] = await host.read("STAGED")

    results = simulate(buffers, [root, replace(leaf, **twice)], script, "never")
    total = (buffers[0] + buffers[1]) + buffers[1]
    assert results == [as_words(total.reshape(-1, LANES))] * 2
    assert staged == {0: 1, 1: 0}
