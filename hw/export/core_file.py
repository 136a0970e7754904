"""The FuseSoC core file of a generated module."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Bench", "CocotbBenches", "core_file"]


@dataclass(frozen=True)
class Bench:
    """A test bench in Verilog of a module: its top module, its Verilog files relative to the core
    file, and the names of files that it reads from the folder that it runs in.
    """

    top: str
    sources: tuple[str, ...]
    data: tuple[str, ...]


@dataclass(frozen=True)
class CocotbBenches:
    """Benches in Python of a module. `source` is Verilog that is read first: it sets the time
    scale, and has the other tops. `data` are Python modules and what they read; `targets` are
    (name, top module, Python module with the tests).
    """

    source: str
    data: tuple[str, ...]
    targets: tuple[tuple[str, str, str], ...]


def core_file(
    *,
    name: str,
    version: str,
    description: str,
    top: str,
    sources: Sequence[str],
    documents: Sequence[str] = (),
    bench: Bench | None = None,
    cocotb: CocotbBenches | None = None,
) -> str:
    """Return a core file in CAPI2, the format of FuseSoC's package descriptions. It has the targets
    `default`, `lint` (Verilator), `synth` (Yosys, for ECP5) and, where there is a bench, `sim`
    (Icarus), `sim_verilator` and those of benches in Python; files are relative to it.
    """
    lines = [
        "CAPI=2:",
        "# SPDX-License-Identifier: Apache-2.0",
        f"name: multitree:hw:{name}:{version}",
        f'description: "{description}"',
        "filesets:",
        *_fileset("rtl", "verilogSource", sources),
    ]
    if documents:
        lines += _fileset("documents", "user", documents)
    if bench:
        lines += _fileset("bench", "verilogSource", bench.sources)
        lines += _fileset("data", "user", _copied(bench.data))
    if cocotb:
        lines += _fileset("cocotb", "verilogSource", [cocotb.source])
        lines += _fileset("cocotb_data", "user", _copied(cocotb.data))
    lines += [
        "targets:",
        *_target("default", "rtl, documents" if documents else "rtl", top),
        *_target("lint", "rtl", top, "lint", "verilator"),
        "      verilator_options: [-Wall, -Wno-style]",
        *_target("synth", "rtl", top, "generic", "yosys"),
        "      arch: ecp5",
        "      output_format: json",
    ]
    if bench:
        lines += [
            *_target("sim", "rtl, bench, data", bench.top, "sim", "icarus"),
            "      iverilog_options: [-g2005]",
            *_target("sim_verilator", "rtl, bench, data", bench.top, "sim", "verilator"),
            "      mode: binary",
        ]
    for name, module, tests in cocotb.targets if cocotb else ():
        lines += [
            *_target(name, "cocotb, rtl, cocotb_data", module, "sim", "icarus"),
            "      iverilog_options: [-g2005]",
            f"      cocotb_module: {tests}",
        ]
    return "\n".join([*lines, ""])


def _copied(files: Sequence[str]) -> list[str]:
    """Files that a simulation reads: it runs in a folder of its own."""
    return [f"{file}: {{copyto: {file.rpartition('/')[2]}}}" for file in files]


def _fileset(name: str, file_type: str, files: Sequence[str]) -> list[str]:
    listed = [f"      - {file}" for file in files]
    return [f"  {name}:", "    files:", *listed, f"    file_type: {file_type}"]


def _target(name: str, filesets: str, top: str, flow: str = "", tool: str = "") -> list[str]:
    """Lines of a target; options of its tool may follow if it has one."""
    lines = [f"  {name}:", f"    filesets: [{filesets}]", f"    toplevel: {top}"]
    if flow:
        lines += [f"    flow: {flow}", "    flow_options:", f"      tool: {tool}"]
    return lines
