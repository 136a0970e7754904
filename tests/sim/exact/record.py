"""Writes what the RTL gives for the seeds that tests compare.

To be run where the hardware's cycles have changed, and the exact engine with them:
``python -m tests.sim.exact.record`` compiles some twelve networks and takes a quarter of an hour.
"""

import json
from pathlib import Path

from tests.benches import bench_module

__all__ = ["RECORDED"]

RECORDED = Path(__file__).parent / "recorded.json"
NUM_SEEDS = 300


def main():
    """Run all seeds; nothing is written where the exact engine is not equal."""
    bench = bench_module("exact_vs_rtl")
    outcomes = bench.CAMPAIGN.outcomes(range(NUM_SEEDS), jobs=2)
    for outcome in outcomes:
        if not outcome.exact:
            raise SystemExit(f"Seed {outcome.seed}: {outcome.text}")
    digests = [outcome.digest for outcome in outcomes]
    number = len(bench.KINDS)
    rows = {kind.name: digests[first::number] for first, kind in enumerate(bench.KINDS)}
    lines = [f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
