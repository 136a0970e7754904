"""What rounding every partial sum to bf16 costs against fp32 sums rounded once.

Runs all-reduces of bf16 buffers by `execute`, whose partial sums are rounded to bf16 wherever they
are written, and the same schedules on the same values in fp32, rounded to bf16 once at the end.
Errors are against the exact sum, in units in the last place (ulp) of bf16 at the exact sum, or at
the root mean square of all sums where one is smaller, since a sum that cancels has errors of the
size of its summands. Two kinds of values: normal ones, whose sums partly cancel, and positive ones,
squares of normal ones.

``python bench/bf16_error.py --elements 100000 --seed 1``
"""

import argparse
import json

import numpy as np
from ml_dtypes import bfloat16

from multitree import execute, torus
from multitree.topology.algorithms.build import build
from multitree.topology.networks.topology import Topology

FRACTION_BITS = 7


def draw(kind: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Values of one kind, as bf16."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return (np.square(values) if kind == "positive" else values).astype(bfloat16)


def errors_ulp(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """How far bf16 results are from exact sums, in last places of bf16 at a sum's usual size."""
    usual = np.sqrt(np.square(exact).mean())
    exponent = np.frexp(np.maximum(np.abs(exact), usual))[1] - 1
    return np.abs(found.astype(np.float64) - exact) / np.ldexp(1.0, exponent - FRACTION_BITS)


def measure(topology: Topology, kind: str, num_elements: int, seed: int) -> dict[str, float]:
    """Largest and root mean square error of both, and how much larger the partial rounding's."""
    schedule = build(topology, "multitree")
    buffers = draw(kind, (topology.num_ranks, num_elements), seed)
    exact = buffers.astype(np.float64).sum(axis=0)
    once = execute(schedule, buffers.astype(np.float32))[0].astype(bfloat16)
    rows = {"each": execute(schedule, buffers)[0], "once": once}
    figures = {}
    for name, found in rows.items():
        wrong = errors_ulp(found, exact)
        figures[f"max_{name}"] = float(wrong.max())
        figures[f"rms_{name}"] = float(np.sqrt(np.square(wrong).mean()))
    return figures


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=100_000, help="of one rank's buffer")
    parser.add_argument("--seed", type=int, default=1, help="of the values")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for topology in (torus(4, 4), torus(8, 8)):
        for kind in ("normal", "positive"):
            figures = measure(topology, kind, arguments.elements, arguments.seed)
            for name in ("max", "rms"):
                figures[f"{name}_ratio"] = figures[f"{name}_each"] / figures[f"{name}_once"]
            rows.append({"topology": topology.name, "values": kind, **figures})
    if arguments.json:
        print(json.dumps({"rows": rows}, indent=2))
        return
    print("each: every partial sum rounded to bf16; once: fp32 sums rounded at the end; in ulp")
    print(f"{'topology':<10} {'values':<9}", end="")
    print(f"{'max each':>9} {'once':>6} {'ratio':>6} {'rms each':>9} {'once':>6} {'ratio':>6}")
    for row in rows:
        print(f"{row['topology']:<10} {row['values']:<9}", end="")
        for name in ("max", "rms"):
            each, once, ratio = (row[f"{name}_{which}"] for which in ("each", "once", "ratio"))
            print(f"{each:9.2f} {once:6.2f} {ratio:6.1f}", end=" ")
        print()


if __name__ == "__main__":
    main()
