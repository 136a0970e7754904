"""The generated lane unit against NumPy: corner classes and millions of pairs.

Generates the Verilog of a `LaneUnit` of one word, compiles it with Verilator and g++, and compares
every result with NumPy, bit for bit (NaN: the canonical one): sums and maxima of int32, fp32 and,
in both halves of the word, which have different adders, bf16.
Exit status 1 if one bit differs: ``python bench/lane_unit.py --pairs 1000000 --seed 1``. With
``--every`` also all 2^32 pairs of bf16 numbers, which takes about 20 CPU minutes.
"""

import argparse
import ctypes
import sys
import time
from collections.abc import Callable

import numpy as np

from multitree.hw.export.verilog import generate
from multitree.hw.lanes import DType, LaneOp, LaneUnit
from multitree.sim.emulator.verilator import build_library

CORNERS = (
    *(0x00000000, 0x00000001, 0x00000002, 0x003FFFFF, 0x00400000, 0x007FFFFE, 0x007FFFFF),
    *(0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000, 0x01000001, 0x0B800000, 0x0C000000),
    *(0x33000000, 0x33000001, 0x33800000, 0x33800001, 0x34000000, 0x3F7FFFFF, 0x3F800000),
    *(0x3F800001, 0x3FFFFFFF, 0x40000000, 0x4B7FFFFF, 0x4B800000, 0x4B800001, 0x4C000000),
    *(0x72FFFFFF, 0x73000000, 0x73800000, 0x7E800000, 0x7EFFFFFF, 0x7F000000, 0x7F7FFFFE),
    *(0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF),
)
"""Zero, subnormals, limits of the exponent and significand, halves of a last place, infinity,
quiet and signalling NaN; each with both signs."""


INTEGER_CORNERS = (0, 1, 2, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF)

HARNESS = """
#include <cstddef>
#include <cstdint>
#include "Vnic.h"

extern "C" __attribute__((visibility("default"))) void combine(
    const uint32_t* a, const uint32_t* b, uint32_t* o, size_t count,
    uint32_t dtype, uint32_t op, size_t latency) {
    VerilatedContext context;
    Vnic unit{&context};
    unit.dtype = dtype;
    unit.op = op;
    for (size_t cycle = 0; cycle < count + latency; cycle++) {
        if (cycle >= latency) o[cycle - latency] = unit.o;
        const size_t pair = cycle < count ? cycle : count - 1;
        unit.a = a[pair];
        unit.b = b[pair];
        unit.clk = 0;
        unit.eval();
        unit.clk = 1;
        unit.eval();
    }
}
"""

Unit = Callable[[np.ndarray, np.ndarray, DType, LaneOp], np.ndarray]


def build() -> Unit:
    """Compile the generated Verilog; returns a function from pairs to results."""
    unit = LaneUnit(flit_bytes=4)
    verilog = generate(unit, name="lane_unit")
    library = ctypes.CDLL(str(build_library(verilog, {"unit.cpp": HARNESS}, top="lane_unit")))
    array = np.ctypeslib.ndpointer(dtype=np.uint32, flags="C_CONTIGUOUS")
    library.combine.argtypes = [array, array, array, ctypes.c_size_t]
    library.combine.argtypes += [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_size_t]
    library.combine.restype = None

    def combine(a: np.ndarray, b: np.ndarray, dtype: DType, op: LaneOp) -> np.ndarray:
        results = np.empty_like(a)
        library.combine(a, b, results, len(a), dtype.value, op.value, unit.stages)
        return results

    return combine


def corner_pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Words of every corner class with every other, both signs of each."""
    corners = INTEGER_CORNERS if dtype is DType.INT32 else CORNERS
    values = np.array(corners, np.uint32)
    values = np.concatenate([values, values ^ np.uint32(0x80000000)])
    if dtype is DType.BF16:
        # The lower places of a word have the corners of single precision: take them as well.
        values = np.unique(np.concatenate([values >> 16, values << 9 >> 16, values & 0xFFFF]))
    a, b = (pairs.ravel() for pairs in np.meshgrid(values, values))
    return _words(a, b, dtype)


def random_pairs(count: int, seed: int, dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of all kinds: any bits, exponents close or equal, subnormals, and near cancellation."""
    rng = np.random.default_rng(seed)
    fraction_width = 7 if dtype is DType.BF16 else 23
    sign_bit = 1 << (fraction_width + 8)

    def draw(low: int, high: int) -> np.ndarray:
        return rng.integers(low, high, count, dtype=np.int64)

    def fraction() -> np.ndarray:
        runs = (1 << draw(0, fraction_width + 1)) - (1 << draw(0, fraction_width + 1))
        anything = draw(0, 1 << fraction_width)
        return np.where(draw(0, 4) == 0, runs & (1 << fraction_width) - 1, anything)

    kind = draw(0, 6)
    exponent_a = np.where(kind == 1, draw(0, 3), draw(0, 256))
    near = np.clip(exponent_a + draw(-3, 4), 0, 255)
    within = np.clip(exponent_a + draw(-30, 31), 0, 255)
    exponent_b = np.choose(kind, [draw(0, 256), draw(0, 3), near, exponent_a, within, within])
    a = draw(0, 2) * sign_bit | exponent_a << fraction_width | fraction()
    b = draw(0, 2) * sign_bit | exponent_b << fraction_width | fraction()
    # The last kind: the same number with the other sign, but for its last places.
    b = np.where(kind == 5, (a ^ sign_bit) + draw(-4, 5) & (2 * sign_bit - 1), b)
    return _words(a.astype(np.uint32), b.astype(np.uint32), dtype)


def _words(a: np.ndarray, b: np.ndarray, dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Words of one lane each; bf16: of two lanes, so that each pair comes in both halves."""
    if dtype is not DType.BF16:
        return a, b
    # Another pair in the other half: what crosses the middle of the word is seen.
    return tuple(lanes | np.roll(lanes, 1) << np.uint32(16) for lanes in (a, b))


def round_to_bf16(numbers: np.ndarray) -> np.ndarray:
    """Bits of float32 numbers rounded to the nearest bf16 ones, ties to even; NaN the canonical."""
    bits = numbers.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)
    return np.where(np.isnan(numbers), np.uint16(0x7FC0), rounded)


def expected(a: np.ndarray, b: np.ndarray, dtype: DType, op: LaneOp) -> np.ndarray:
    """The results by NumPy and by the definition of bf16 sums, words in and words out."""
    if op is LaneOp.SECOND:
        return b
    if dtype is DType.INT32:
        if op is LaneOp.SUM:
            return a + b
        return np.maximum(a.view(np.int32), b.view(np.int32)).view(np.uint32)
    if dtype is DType.BF16:
        lanes = [word.view(np.uint16).astype(np.uint32) << np.uint32(16) for word in (a, b)]
        return round_to_bf16(_float_result(*lanes, op)).view(np.uint32)
    result = _float_result(a, b, op)
    return np.where(np.isnan(result), np.uint32(0x7FC00000), result.view(np.uint32))


def _float_result(a: np.ndarray, b: np.ndarray, op: LaneOp) -> np.ndarray:
    """Sum, or maximum with +0 above -0, of the float32 numbers of these bits."""
    x, y = a.view(np.float32), b.view(np.float32)
    with np.errstate(all="ignore"):
        if op is LaneOp.SUM:
            return x + y
        # Equal numbers differ at most in the sign of zero, which only -0 and -0 keep.
        return np.where(x == y, (a & b).view(np.float32), np.maximum(x, y))


def differing(unit: Unit, a: np.ndarray, b: np.ndarray, dtype: DType, op: LaneOp) -> int:
    """Number of words that differ from NumPy's; prints the first ones."""
    got, wanted = unit(a, b, dtype, op), expected(a, b, dtype, op)
    wrong = np.flatnonzero(got != wanted)
    for pair in wrong[:5]:
        numbers = (a[pair], b[pair], got[pair], wanted[pair])
        print("  {:08x} and {:08x} gave {:08x}, NumPy {:08x}".format(*numbers))
    return len(wrong)


def every_bf16_pair(unit: Unit, op: LaneOp) -> int:
    """Number of words that differ over all 2^32 pairs of bf16 numbers, in both halves."""
    every = np.arange(1 << 16, dtype=np.uint32)
    wrong = 0
    for first in range(1 << 16):
        a, b = _words(np.full_like(every, first), every, DType.BF16)
        wrong += differing(unit, a, b, DType.BF16, op)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="random pairs of each type")
    parser.add_argument("--seed", type=int, default=1, help="of the random pairs")
    parser.add_argument("--every", action="store_true", help="all pairs of bf16 numbers as well")
    arguments = parser.parse_args()
    start = time.perf_counter()
    unit, wrong = build(), 0
    print(f"build {time.perf_counter() - start:.1f} s")
    for dtype in DType:
        corners = corner_pairs(dtype)
        drawn = random_pairs(arguments.pairs, arguments.seed, dtype)
        for op in (LaneOp.SUM, LaneOp.MAXIMUM):
            found = sum(differing(unit, *pairs, dtype, op) for pairs in (corners, drawn))
            numbers = f"{len(corners[0])} corner and {len(drawn[0])} random"
            print(f"{dtype.name} {op.name}: {numbers} words, {found} differ")
            wrong += found
    for op in (LaneOp.SUM, LaneOp.MAXIMUM) if arguments.every else ():
        found = every_bf16_pair(unit, op)
        print(f"BF16 {op.name}: every pair, {found} words differ")
        wrong += found
    print(f"{time.perf_counter() - start:.1f} s in all")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
