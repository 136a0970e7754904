"""Runs a bench of the tests on a text of Verilog."""

import pytest

from multitree.sim.cocotb.simulators import BenchError, missing, simulate
from tests.repository import ROOT

SEED = 2021


def run_bench(simulator, verilog, folder, *, bench, top="network", **options):
    """Build Verilog and run every test of a bench, or of several in turn, on its module `top`."""
    lack = missing(simulator)
    if lack:
        pytest.skip(f"{bench} on {simulator}: {lack}")
    source = folder / f"{top}.v"
    source.write_text(verilog)
    benches = (bench,) if isinstance(bench, str) else bench
    try:
        results = simulate(
            simulator,
            sources=[source],
            top=top,
            modules=[f"tests.cocotb.benches.{name}" for name in benches],
            folder=folder,
            seed=SEED,
            python_path=ROOT,
            **options,
        )
    except BenchError as error:
        pytest.fail(str(error), pytrace=False)
    print((folder / "log.txt").read_text()[-20000:])
    assert not [result for result in results if not result.passed]
