"""The lane adder gives NumPy's sums, bit for bit, a new one in every cycle."""

import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

from multitree.hw.lanes import DType, LaneAdder

NUM_FLITS, LANES = 2000, 4
SPECIAL = [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x3F800000]
SPECIAL += [0xBF800000, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345, 0x33800000, 0x4B800000]


def draw(rng):
    """Lanes: special values, random patterns, and pairs that nearly cancel."""
    lanes = rng.integers(0, 1 << 32, size=(2, NUM_FLITS, LANES), dtype=np.uint64)
    special = rng.random(lanes.shape) < 0.3
    lanes[special] = rng.choice(SPECIAL, size=int(special.sum()))
    near = rng.random(lanes.shape[1:]) < 0.3
    change = rng.integers(0, 4, size=int(near.sum()), dtype=np.uint64)
    lanes[1][near] = (lanes[0][near] ^ np.uint64(0x80000000)) ^ change
    return lanes.astype(np.uint32)


def expected(a, b, is_float):
    """Sums of uint32 lanes as the definition of a schedule has them."""
    if not is_float:
        return a + b
    with np.errstate(all="ignore"):
        total = a.view(np.float32) + b.view(np.float32)
    return np.where(np.isnan(total), np.uint32(0x7FC00000), total.view(np.uint32))


@cocotb.test()
async def sums_have_the_bits_of_numpy(dut):
    a, b = draw(np.random.default_rng(random.getrandbits(32)))
    types = [random.choice([DType.INT32, DType.FP32]) for _ in range(NUM_FLITS)]
    dut.rst.value = 0
    cocotb.start_soon(Clock(dut.clk, 2, "ns").start())
    for cycle in range(NUM_FLITS + LaneAdder.LATENCY):
        await FallingEdge(dut.clk)
        # Read before the inputs change: what went in LATENCY cycles ago comes out now.
        done = cycle - LaneAdder.LATENCY
        if done >= 0:
            total = int(dut.o.value).to_bytes(4 * LANES, "little")
            right = expected(a[done], b[done], types[done] == DType.FP32)
            assert np.array_equal(np.frombuffer(total, dtype=np.uint32), right), (
                f"{types[done].name}: {a[done]} + {b[done]}"
            )
        if cycle < NUM_FLITS:
            dut.a.value = int.from_bytes(a[cycle].tobytes(), "little")
            dut.b.value = int.from_bytes(b[cycle].tobytes(), "little")
            dut.dtype.value = types[cycle].value
