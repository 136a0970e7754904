"""Runs a bench of the tests on a text of Verilog."""

import pytest

from multitree.sim.cocotb.simulators import BenchError, missing, simulate
from tests.repository import ROOT

SEED = 2021


def run_bench(simulator, *, verilog, top, bench, folder, build_args=(), inside=()):
    """Build `verilog` and run every test of `tests.cocotb.benches.<bench>` on its module `top`.

    Parameters
    ----------
    simulator : str
        "icarus" or "verilator".
    verilog : str
        Text of the whole design.
    top : str
        Module that the bench drives.
    bench : str or tuple of str
        Name of the bench's Python module, or of several that run one after the other.
    folder : Path
        Where to build, and where benches write their files.
    build_args, inside
        As for `simulate`.
    """
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
            build_args=build_args,
            inside=inside,
            python_path=ROOT,
        )
    except BenchError as error:
        pytest.fail(str(error), pytrace=False)
    print((folder / "log.txt").read_text()[-20000:])
    assert not [result for result in results if not result.passed]
