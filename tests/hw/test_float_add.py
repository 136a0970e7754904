"""Tests of the binary32 adder: NumPy's bits, in the simulator and in Verilog."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from multitree.hw.float_add import CANONICAL_NAN, Fp32Adder
from tests.hw.streams import run

BENCH = Path(__file__).parents[2] / "bench" / "fp32_adder.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("fp32_adder_bench", BENCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def simulate(a, b):
    """Sums of the block for pairs that follow each other in every cycle."""
    adder, sums = Fp32Adder(), []

    async def drive(ctx):
        for cycle in range(len(a) + Fp32Adder.LATENCY):
            if cycle < len(a):
                ctx.set(adder.a, int(a[cycle]))
                ctx.set(adder.b, int(b[cycle]))
            sums.append(ctx.get(adder.o))
            await ctx.tick()

    run(adder, drive)
    return np.array(sums[Fp32Adder.LATENCY :], np.uint32)


def test_corner_classes_add_up_as_in_numpy(bench):
    a, b = bench.corner_pairs()
    assert np.array_equal(simulate(a, b), bench.expected(a, b))


def test_random_pairs_add_up_as_in_numpy(bench):
    seed = 7
    print(f"seed {seed}")
    a, b = bench.random_pairs(5000, seed)
    assert np.array_equal(simulate(a, b), bench.expected(a, b))


@pytest.mark.parametrize(
    ("a", "b", "total"),
    [
        (0x3F800000, 0x3F800000, 0x40000000),  # 1 + 1 = 2
        (0x3F800000, 0x33800000, 0x3F800000),  # half a last place: to even, down
        (0x3F800001, 0x33800000, 0x3F800002),  # half a last place: to even, up
        (0x3F800000, 0x33800001, 0x3F800001),  # a little more than half
        (0x7F7FFFFF, 0x73000000, 0x7F800000),  # half a last place above the largest: infinity
        (0x7F7FFFFF, 0x72FFFFFF, 0x7F7FFFFF),  # a little less
        (0x00000001, 0x00000001, 0x00000002),  # subnormals
        (0x007FFFFF, 0x00000001, 0x00800000),  # the largest subnormal becomes normal
        (0x00800000, 0x80000001, 0x007FFFFF),  # and back
        (0x3F800000, 0xBF800000, 0x00000000),  # cancellation is +0
        (0x80000000, 0x80000000, 0x80000000),  # -0 + -0 = -0
        (0x80000000, 0x00000000, 0x00000000),  # -0 + 0 = +0
        (0x7F800000, 0xFF7FFFFF, 0x7F800000),  # infinity stays
        (0x7F800000, 0xFF800000, CANONICAL_NAN),  # infinity - infinity
        (0x7F800001, 0x3F800000, CANONICAL_NAN),  # signalling NaN
        (0xFFFFFFFF, 0x3F800000, CANONICAL_NAN),  # NaN with a payload and a sign
    ],
)
def test_sums_by_hand(a, b, total):
    sums = simulate([a, b], [b, a])
    assert [hex(x) for x in sums] == [hex(total)] * 2


def test_a_million_pairs_through_the_verilog_differ_in_no_bit(bench, tmp_path):
    add = bench.build(tmp_path)
    assert bench.differing(add, *bench.corner_pairs()) == 0
    seed = 1
    print(f"seed {seed}")
    assert bench.differing(add, *bench.random_pairs(1_000_000, seed)) == 0


def test_the_random_pairs_reach_every_kind_of_sum(bench):
    a, b = bench.random_pairs(1_000_000, 1)
    total = bench.expected(a, b)
    exponent = [word >> 23 & 0xFF for word in (a, b, total)]
    distance = np.abs(exponent[0].astype(int) - exponent[1])
    opposite = (a ^ b) >> 31 == 1
    finite = (exponent[0] < 255) & (exponent[1] < 255)
    kinds = {
        "overflow": finite & (exponent[2] == 255),
        "subnormal sum of normal numbers": (exponent[0] > 0)
        & (exponent[1] > 0)
        & (exponent[2] == 0)
        & (total << 1 != 0),
        "normal sum of subnormal numbers": (exponent[0] == 0)
        & (exponent[1] == 0)
        & (exponent[2] == 1),
        "cancellation to zero": opposite & finite & (total << 1 == 0),
        "NaN": total == CANONICAL_NAN,
        **{f"distance {d}, same sign": (distance == d) & ~opposite for d in range(28)},
        **{f"distance {d}, opposite sign": (distance == d) & opposite for d in range(28)},
    }
    assert {name: bool(hits.sum() > 100) for name, hits in kinds.items()} == dict.fromkeys(
        kinds, True
    )
