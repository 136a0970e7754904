"""The lane unit gives NumPy's sums and maxima, bit for bit, one flit per cycle."""

import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

from multitree.hw.codes import LEAST_STAGES
from multitree.hw.lanes import LaneOp
from multitree.nic.driver.config import LANE_TYPES
from multitree.topology.collectives import DTYPES, combine

NUM_FLITS, LANES = 2000, 4
SPECIAL = [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x3F800000]
SPECIAL += [0xBF800000, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345, 0x33800000, 0x4B800000]
SPECIAL += [0x00003F80, 0x80003B80, 0x7F80FF80, 0x007F0001]


def draw(rng):
    """Lanes: special values, random patterns, and pairs that nearly cancel."""
    lanes = rng.integers(0, 1 << 32, size=(2, NUM_FLITS, LANES), dtype=np.uint64)
    special = rng.random(lanes.shape) < 0.3
    lanes[special] = rng.choice(SPECIAL, size=int(special.sum()))
    near = rng.random(lanes.shape[1:]) < 0.3
    change = rng.integers(0, 4, size=int(near.sum()), dtype=np.uint64)
    lanes[1][near] = (lanes[0][near] ^ np.uint64(0x80000000)) ^ change
    return lanes.astype(np.uint32)


def expected(a, b, dtype, op):
    """Words of a flit as the definition of a schedule has them."""
    if op == LaneOp.SECOND:
        return b
    result = a.view(DTYPES[dtype]).copy()
    combine(result, b.view(result.dtype), "sum" if op == LaneOp.SUM else "max")
    return result.view(np.uint32)


@cocotb.test()
async def results_have_the_bits_of_numpy(dut):
    a, b = draw(np.random.default_rng(random.getrandbits(32)))
    types = [random.choice(list(LANE_TYPES)) for _ in range(NUM_FLITS)]
    ops = [random.choice(list(LaneOp)) for _ in range(NUM_FLITS)]
    dut.rst.value = 0
    cocotb.start_soon(Clock(dut.clk, 2, "ns").start())
    for cycle in range(NUM_FLITS + LEAST_STAGES):
        await FallingEdge(dut.clk)
        # Read before the inputs change: what went in as many cycles ago comes out now.
        done = cycle - LEAST_STAGES
        if done >= 0:
            total = int(dut.o.value).to_bytes(4 * LANES, "little")
            right = expected(a[done], b[done], types[done], ops[done])
            assert np.array_equal(np.frombuffer(total, dtype=np.uint32), right), (
                f"{types[done]} {ops[done].name}: {a[done]}, {b[done]}"
            )
        if cycle < NUM_FLITS:
            dut.a.value = int.from_bytes(a[cycle].tobytes(), "little")
            dut.b.value = int.from_bytes(b[cycle].tobytes(), "little")
            dut.dtype.value = LANE_TYPES[types[cycle]].value
            dut.op.value = ops[cycle].value
