"""The FuseSoC core file of a generated module."""

from collections.abc import Sequence

__all__ = ["core_file"]


def core_file(
    *,
    name: str,
    version: str,
    description: str,
    top: str,
    sources: Sequence[str],
    documents: Sequence[str] = (),
) -> str:
    """Return a core file in CAPI2, the format of FuseSoC's package descriptions.

    It has the targets `default` (for a design that depends on this one), `lint` (Verilator, all
    warnings but those of style, since Yosys wrote the text) and `synth` (Yosys, for ECP5), and no
    parameters: sizes are in the Verilog.

    Parameters
    ----------
    name, version : str
        Name and version of the core; its vendor and library are `multitree` and `hw`.
    description : str
        One line.
    top : str
        Top module of the targets.
    sources : sequence of str
        Verilog files, in order, relative to the core file.
    documents : sequence of str
        What else belongs to it and no tool reads.

    References
    ----------
    FuseSoC user guide, CAPI2 reference.
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
    filesets = "[rtl, documents]" if documents else "[rtl]"
    lines += [
        "targets:",
        "  default:",
        f"    filesets: {filesets}",
        f"    toplevel: {top}",
        "  lint:",
        "    filesets: [rtl]",
        f"    toplevel: {top}",
        "    flow: lint",
        "    flow_options:",
        "      tool: verilator",
        "      verilator_options: [-Wall, -Wno-style]",
        "  synth:",
        "    filesets: [rtl]",
        f"    toplevel: {top}",
        "    flow: generic",
        "    flow_options:",
        "      tool: yosys",
        "      arch: ecp5",
        "      output_format: json",
        "",
    ]
    return "\n".join(lines)


def _fileset(name: str, file_type: str, files: Sequence[str]) -> list[str]:
    listed = [f"      - {file}" for file in files]
    return [f"  {name}:", "    files:", *listed, f"    file_type: {file_type}"]
