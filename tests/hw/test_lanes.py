"""Tests of the lane unit: NumPy's bits for every type, simulated and in Verilog."""

import numpy as np
import pytest

from multitree.hw.lanes import DType, LaneOp, LaneUnit
from tests.benches import bench_module
from tests.hw.streams import assert_refused, put, simulation

bench = bench_module("lane_unit")
ODD = [0x7F800001, 0xFF800001, 0x80000000, 0x80000001, 0xFFFFFFFF, 0x7F81FF81]


@simulation
async def simulate(ctx, unit, stimulus):
    """Results of the block, words in and words out, one pair of flits per cycle."""
    results = []
    for a, b, dtype, op in [*stimulus, *stimulus[-1:] * unit.stages]:
        a, b = (int.from_bytes(words.tobytes(), "little") for words in (a, b))
        put(ctx, unit, a=a, b=b, dtype=dtype, op=op)
        results.append(ctx.get(unit.o).to_bytes(unit.flit_bytes, "little"))
        await ctx.tick()
    return [np.frombuffer(flit, np.uint32).tolist() for flit in results[unit.stages :]]


def draw(flit_bytes, dtypes, count, seed):
    """Flits of all types and operations, mixed."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    lanes = flit_bytes // 4
    pairs = {t: bench.random_pairs(count * lanes, seed, t) for t in dtypes}
    stimulus = []
    for k in range(count):
        dtype, op = dtypes[rng.integers(len(dtypes))], list(LaneOp)[rng.integers(3)]
        a, b = (words[k * lanes : (k + 1) * lanes] for words in pairs[dtype])
        stimulus.append((a, b, dtype, op))
    return stimulus


@pytest.mark.parametrize(("flit_bytes", "stages"), [(4, 4), (16, 4), (32, 4), (16, 5), (16, 6)])
def test_lanes_are_combined_as_in_numpy_whatever_their_type(flit_bytes, stages):
    stimulus = draw(flit_bytes, list(DType), 300, 3)
    right = [bench.expected(*each).tolist() for each in stimulus]
    assert simulate(LaneUnit(flit_bytes=flit_bytes, stages=stages), stimulus) == right


@pytest.mark.parametrize(
    "dtypes",
    [
        (DType.INT32,),
        (DType.FP32,),
        (DType.BF16,),
        (DType.INT32, DType.BF16),
        (DType.FP32, DType.BF16),
    ],
    ids=lambda dtypes: "+".join(dtype.name for dtype in dtypes),
)
def test_a_unit_of_some_types_gives_their_results(dtypes):
    stimulus = draw(8, list(dtypes), 200, 4)
    right = [bench.expected(*each).tolist() for each in stimulus]
    assert simulate(LaneUnit(flit_bytes=8, dtypes=dtypes), stimulus) == right


def test_integers_wrap_around_and_have_a_signed_maximum():
    largest, one, smallest = (np.array([x], np.uint32) for x in (2**31 - 1, 1, 2**31))
    stimulus = [(largest, one, DType.INT32, LaneOp.SUM)]
    stimulus += [(smallest, one, DType.INT32, LaneOp.MAXIMUM)]
    assert simulate(LaneUnit(flit_bytes=4), stimulus) == [[2**31], [1]]


@pytest.mark.parametrize("built", [tuple(DType), (DType.FP32,), (DType.BF16,)], ids=str)
def test_the_second_operand_keeps_its_bits_whatever_they_mean(built):
    odd = [np.array([word], np.uint32) for word in ODD]
    stimulus = [(odd[k - 1], odd[k], t, LaneOp.SECOND) for k in range(len(odd)) for t in DType]
    right = [second.tolist() for _, second, _, _ in stimulus]
    assert simulate(LaneUnit(flit_bytes=4, dtypes=built), stimulus) == right


@pytest.mark.slow
def test_a_million_words_of_each_type_through_the_verilog_differ_in_no_bit():
    unit = bench.build()
    seed = 1
    print(f"seed {seed}")
    for dtype in DType:
        for pairs in (bench.corner_pairs(dtype), bench.random_pairs(1_000_000, seed, dtype)):
            for op in LaneOp:
                assert bench.differing(unit, *pairs, dtype, op) == 0


@pytest.mark.parametrize(("dtype", "width"), [(DType.FP32, 23), (DType.BF16, 7)])
def test_the_random_pairs_reach_every_kind_of_sum(dtype, width):
    a, b = bench.random_pairs(1_000_000, 1, dtype)
    total = bench.expected(a, b, dtype, LaneOp.SUM)
    if dtype is DType.BF16:
        a, b, total = (words & 0xFFFF for words in (a, b, total))
    # Exponents of both and of the sum.
    x, y, s = (word >> width & 0xFF for word in (a, b, total))
    magnitude = total & ((1 << width + 8) - 1)
    distance = np.abs(x.astype(int) - y)
    opposite = (a ^ b) >> (width + 8) == 1
    finite = (x < 255) & (y < 255)
    kinds = {
        "overflow": finite & (s == 255),
        "subnormal sum of normal numbers": (x > 0) & (y > 0) & (s == 0) & (magnitude != 0),
        "normal sum of subnormal numbers": (x == 0) & (y == 0) & (s == 1),
        "cancellation to zero": opposite & finite & (magnitude == 0),
        "NaN": total == 0x1FF << (width - 1),
        **{f"distance {d}, same sign": (distance == d) & ~opposite for d in range(width + 5)},
        **{f"distance {d}, opposite sign": (distance == d) & opposite for d in range(width + 5)},
    }
    assert [name for name, hits in kinds.items() if hits.sum() <= 100] == []


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"flit_bytes": 0}, ValueError, "Flit bytes must be .*, not 0"),
        ({"flit_bytes": 6}, ValueError, "Flit bytes must be .*, not 6"),
        ({"flit_bytes": 16.0}, TypeError, "Flit bytes must be .*, not 16.0"),
        ({"stages": 3}, ValueError, "Stages must be .*, not 3"),
        ({"stages": 7}, ValueError, "Stages must be .*, not 7"),
        ({"dtypes": ()}, ValueError, "Dtypes must be some of .*, not "),
        ({"dtypes": ("int32",)}, ValueError, "Dtypes must be some of .*, not "),
    ],
)
def test_a_wrong_size_is_named(change, error, message):
    assert_refused(LaneUnit, error, message, **{"flit_bytes": 4} | change)
