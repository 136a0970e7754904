"""Tests of the addition of a flit's lanes."""

import numpy as np
import pytest

from multitree.hw.float_add import CANONICAL_NAN
from multitree.hw.lanes import DType, LaneAdder
from tests.hw.streams import assert_refused, run


def reference(a, b, dtype):
    """Sum of two flits, bytes in and bytes out, by NumPy."""
    if dtype is DType.FP32:
        with np.errstate(all="ignore"):
            total = np.frombuffer(a, "<f4") + np.frombuffer(b, "<f4")
        bits = np.where(np.isnan(total), np.uint32(CANONICAL_NAN), total.view("<u4"))
        return bits.astype("<u4").tobytes()
    return (np.frombuffer(a, "<i4") + np.frombuffer(b, "<i4")).tobytes()


def simulate(flit_bytes, stimulus):
    """The same of the block, one pair of flits per cycle."""
    adder, sums = LaneAdder(flit_bytes=flit_bytes), []

    async def drive(ctx):
        for cycle in range(len(stimulus) + LaneAdder.LATENCY):
            if cycle < len(stimulus):
                a, b, dtype = stimulus[cycle]
                ctx.set(adder.a, int.from_bytes(a, "little"))
                ctx.set(adder.b, int.from_bytes(b, "little"))
                ctx.set(adder.dtype, dtype)
            sums.append(ctx.get(adder.o).to_bytes(flit_bytes, "little"))
            await ctx.tick()

    run(adder, drive)
    return sums[LaneAdder.LATENCY :]


@pytest.mark.parametrize("flit_bytes", [4, 16, 32])
def test_lanes_add_up_as_in_numpy_whatever_their_type(flit_bytes):
    seed = 3
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    stimulus = [
        (rng.bytes(flit_bytes), rng.bytes(flit_bytes), rng.choice(list(DType))) for _ in range(300)
    ]
    assert simulate(flit_bytes, stimulus) == [reference(*pair) for pair in stimulus]


def test_integers_wrap_around():
    largest, one = (2**31 - 1).to_bytes(4, "little"), (1).to_bytes(4, "little")
    smallest = (2**31).to_bytes(4, "little")
    assert simulate(4, [(largest, one, DType.INT32)]) == [smallest]


@pytest.mark.parametrize(
    ("flit_bytes", "error"), [(0, ValueError), (6, ValueError), (16.0, TypeError)]
)
def test_a_wrong_size_is_named(flit_bytes, error):
    message = rf"Flit bytes must be .*, not {flit_bytes!r}"
    assert_refused(lambda: LaneAdder(flit_bytes=flit_bytes), error, message)
