"""Writes what the RTL gives for the seeds that tests compare.

To be run where the hardware's cycles have changed, and the exact engine with them:
``python -m tests.sim.exact.record`` compiles some twenty networks and takes half an hour.
"""

import json
from pathlib import Path

from tests.benches import bench_module

__all__ = ["RECORDED"]

RECORDED = Path(__file__).parent / "recorded.json"
NUM_SEEDS = 300
NUM_OF_EACH = 2
"""Of each kind of rare cases, for which interfaces of their own are compiled."""


def main():
    """Run all seeds; nothing is written where the exact engine is not equal."""
    bench = bench_module("exact_vs_rtl")
    first = bench.RARE_SEED
    seeds = *range(NUM_SEEDS), *range(first, first + NUM_OF_EACH * len(bench.RARE))
    outcomes = bench.CAMPAIGN.outcomes(seeds, jobs=2)
    for outcome in outcomes:
        if not outcome.exact:
            raise SystemExit(f"Seed {outcome.seed}: {outcome.text}")
    rows = {kind.name: [] for kind in (*bench.KINDS, *bench.RARE)}
    for outcome in outcomes:
        rows[outcome.spec].append(outcome.digest)
    lines = [f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
