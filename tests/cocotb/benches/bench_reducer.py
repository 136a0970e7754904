"""A port's reducer against a memory whose channels are slow and uneven."""

import random

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge

from multitree.hw.lanes import DType
from multitree.nic.reduce.reducer import item_layout
from multitree.sim.cocotb.memory import Memory
from multitree.sim.cocotb.pins import run_models
from tests.cocotb.models.driving import offer, reset
from tests.cocotb.models.network import CONFIG

LANES = CONFIG.flit_bytes // 4
FLOW_FLITS, NUM_FLOWS, NUM_MESSAGES = 30, 4, 40
GRAIN = CONFIG.submessage_flits


class Watcher:
    """Notes what the reducer reports, and that memory really has it by then."""

    def __init__(self, dut, memory):
        self._dut, self._memory = dut, memory
        self.right = memory.flits.copy()
        self.reports = []

    async def watch(self):
        """Look in the middle of every cycle."""
        dut = self._dut
        while True:
            await FallingEdge(dut.clk)
            if dut.arrival_valid.value == 1:
                flow, count = int(dut.arrival_flow.value), int(dut.arrival_count.value)
                self.reports.append((int(dut.arrival_op.value), flow, count))
                first = flow * FLOW_FLITS
                until = min(first + count * GRAIN, first + FLOW_FLITS)
                assert np.array_equal(self._memory.flits[first:until], self.right[first:until])
                assert dut.arrival_last.value == (until == first + FLOW_FLITS)


def message(flow, op, rng):
    """Random contribution to a flow, and its flits as the reducer's input takes them."""
    lanes = (rng.normal(size=(FLOW_FLITS, LANES)) * 2.0 ** rng.integers(-20, 21)).astype(np.float32)
    items = []
    for place, flit in enumerate(lanes):
        last = place == FLOW_FLITS - 1
        mark = {"op": op, "flow": flow, "count": place // GRAIN + 1, "last": int(last)}
        fields = {
            "payload": int.from_bytes(flit.tobytes(), "little"),
            "address": flow * FLOW_FLITS + place,
            "replace": op,
            "end": int(last or place % GRAIN == GRAIN - 1),
            "mark": mark,
        }
        items.append({"payload": item_layout(CONFIG).const(fields).as_value().value})
    return lanes, items


async def start(dut, seed, **timing):
    """Clock, reset, memory."""
    rng = np.random.default_rng(seed)
    contents = rng.normal(size=(NUM_FLOWS * FLOW_FLITS, LANES)).astype(np.float32)
    memory = Memory(dut, [""], contents.view(np.uint8), seed=seed, **timing)
    cocotb.start_soon(run_models(dut.clk, memory))
    await reset(dut, items_valid=0, dtype=DType.FP32.value, maximum=0)
    return memory, rng


@cocotb.test()
async def what_is_reported_is_in_memory_with_the_bits_of_numpy(dut):
    memory, rng = await start(dut, random.getrandbits(32))
    watcher = Watcher(dut, memory)
    cocotb.start_soon(watcher.watch())
    expected, last_end = [], [0] * NUM_FLOWS
    for _ in range(NUM_MESSAGES):
        flow, op = int(rng.integers(NUM_FLOWS)), int(rng.random() < 0.25)
        # A flow's next contribution waits until the one before is reported.
        while len(watcher.reports) < last_end[flow]:
            await FallingEdge(dut.clk)
        lanes, items = message(flow, op, rng)
        place = slice(flow * FLOW_FLITS, (flow + 1) * FLOW_FLITS)
        old = watcher.right[place].view(np.float32)
        watcher.right[place] = (lanes if op else old + lanes).view(np.uint8)
        expected += [(op, flow, count + 1) for count in range(-(-FLOW_FLITS // GRAIN))]
        last_end[flow] = len(expected)
        await offer(dut, "items", items, pause_chance=0.2)
    while dut.idle.value != 1:
        await FallingEdge(dut.clk)
    assert watcher.reports == expected
    assert np.array_equal(memory.flits, watcher.right)


@cocotb.test()
async def a_flit_per_cycle_while_memory_keeps_up(dut):
    _, rng = await start(dut, random.getrandbits(32), ready_chance=1.0, latencies=(4, 4))
    items = [item for flow in range(NUM_FLOWS) for item in message(flow, 0, rng)[1]]
    assert await offer(dut, "items", items) == NUM_FLOWS * FLOW_FLITS
