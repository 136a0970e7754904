"""What rounding every partial sum to bf16 costs against fp32 sums rounded once.

Runs all-reduces of bf16 buffers by `execute`, whose partial sums are rounded to bf16 wherever they
are written, and the same schedules on the same values in fp32, rounded to bf16 once at the end.
Errors are against the exact sum, in units in the last place (ulp) of bf16 at the exact sum, or at
the root mean square of all sums where one is smaller, since a sum that cancels has errors of the
size of its summands. Two kinds of values: normal ones, whose sums partly cancel, and positive ones,
squares of normal ones.

``python bench/bf16_error.py --elements 100000 --seed 1``
"""

import sys
from itertools import product

import numpy as np
from _bench import Row, ended, options, reported
from ml_dtypes import bfloat16

from multitree import Topology, build, execute, torus

FRACTION_BITS = 7


def draw(kind: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape)
    return (np.square(values) if kind == "positive" else values).astype(bfloat16)


def errors_ulp(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """How far bf16 results are from exact sums, in last places of bf16 at a sum's usual size."""
    usual = np.sqrt(np.square(exact).mean())
    exponent = np.frexp(np.maximum(np.abs(exact), usual))[1] - 1
    return np.abs(found.astype(np.float64) - exact) / np.ldexp(1.0, exponent - FRACTION_BITS)


def measure(topology: Topology, kind: str, num_elements: int, seed: int) -> Row:
    """Largest and root mean square error of both, and how much larger the partial rounding's."""
    schedule = build(topology, "multitree")
    buffers = draw(kind, (topology.num_ranks, num_elements), seed)
    exact = buffers.astype(np.float64).sum(axis=0)
    once = execute(schedule, buffers.astype(np.float32))[0].astype(bfloat16)
    row = {"topology": topology.name, "values": kind}
    for name, found in (("each", execute(schedule, buffers)[0]), ("once", once)):
        wrong = errors_ulp(found, exact)
        row[f"max_{name}"] = float(wrong.max())
        row[f"rms_{name}"] = float(np.sqrt(np.square(wrong).mean()))
    return row | {f"{of}_ratio": row[f"{of}_each"] / row[f"{of}_once"] for of in ("max", "rms")}


def main() -> int:
    given = options(
        __doc__,
        elements={"type": int, "default": 100_000, "help": "of one rank's buffer"},
        seed={"type": int, "default": 1, "help": "of the values"},
    )
    measured = (
        measure(topology, kind, given.elements, given.seed)
        for topology, kind in product((torus(4, 4), torus(8, 8)), ("normal", "positive"))
    )
    columns = [f"{of}_{name}" for of in ("max", "rms") for name in ("each", "once", "ratio")]
    return ended(given, True, {"rows": reported(given, measured, "topology", "values", *columns)})


if __name__ == "__main__":
    sys.exit(main())
