"""Area and static timing of the interface in cells of a Liberty library.

Yosys and ABC map the interface, memories of 16 words or more are black boxes, and OpenSTA says
with which slack it runs at a clock if wires take no time, and which blocks the slowest paths join:
``python bench/asic.py --liberty FILES``; `--json` for programs. Files may be packed by gzip, and a
folder stands for all of its .lib and .lib.gz files; ``$NAME`` in one is an environment variable.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from _cases import Case
from _liberty import LibertyError, Library, read_libraries
from _mapped import Mapped, areas, map_to
from _memories import Memory, liberty
from _sta import between_blocks, missing_sta, timing
from _yosys import ToolError, missing_yosys

SUFFIXES = (".lib", ".lib.gz")
SHOWN_PATHS = 10
MEMORY_LIBRARY = "memories.lib"


def liberty_files(names: list[str]) -> list[Path]:
    """The files that names stand for; a LibertyError if there are none at one."""
    files: list[Path] = []
    for name in names:
        path = Path(os.path.expandvars(name))
        if path.is_dir():
            found = sorted(each for each in path.iterdir() if each.name.endswith(SUFFIXES))
            if not found:
                raise LibertyError(f"{path} must have files called *.lib or *.lib.gz")
            files += found
        elif path.is_file():
            files.append(path)
        else:
            raise LibertyError(f"{path} must be a Liberty file, or a folder of such files")
    return files


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """What was asked for; exit status 2 where that cannot be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--liberty", nargs="+", required=True, metavar="FILE", help="or folders")
    parser.add_argument("--dont-use", nargs="+", default=[], metavar="CELL", help="such as HB*")
    parser.add_argument("--ports", type=int, default=4)
    parser.add_argument("--lanes", default="float32")
    parser.add_argument("--forward-flits", type=int, default=0)
    parser.add_argument("--clock-ghz", type=float, default=1.0)
    parser.add_argument("--memory-access", type=float, default=0.25, help="a memory's data, cycles")
    parser.add_argument("--memory-setup", type=float, default=0.05, help="its inputs, cycles")
    parser.add_argument("--folder", type=Path, default=Path("build/asic"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if not 0 < given.clock_ghz < float("inf"):
        parser.error(f"--clock-ghz must be above 0, not {given.clock_ghz}")
    if not (0 <= given.memory_access < 1 and 0 <= given.memory_setup < 1):
        parser.error("--memory-access and --memory-setup must be from 0 to less than a cycle")
    try:
        given.case = Case(given.ports, lanes=given.lanes, forward_flits=given.forward_flits)
        given.case.config()
        given.files = liberty_files(given.liberty)
        given.folder.mkdir(parents=True, exist_ok=True)
        given.library = read_libraries(given.files, given.folder, given.dont_use)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    for message in filter(None, (missing_yosys(), missing_sta())):
        parser.error(message)
    return given


def _memories(memories: dict[str, Memory]) -> list[dict[str, int]]:
    sizes = Counter((memory.words, memory.bits) for memory in memories.values())
    rows = [{"words": w, "bits": b, "count": n} for (w, b), n in sizes.items()]
    return sorted(rows, key=lambda row: -row["words"] * row["bits"])


def area_rows(mapped: Mapped, library: Library) -> dict[str, Any]:
    """Areas of an interface, and its share that reduces."""
    total, lanes, number = areas(mapped, {k: cell.area_um2 for k, cell in library.cells.items()})
    nand2 = library.nand2()
    memories = _memories(mapped.memories)
    return {
        "cells": number,
        "area_um2": total,
        "gate_equivalents": round(total / nand2.area_um2),
        "nand2": nand2.name,
        "nand2_um2": nand2.area_um2,
        "reduction_um2": lanes,
        "reduction_share": lanes / total,
        "memory_bits": sum(row["words"] * row["bits"] * row["count"] for row in memories),
        "memories": memories,
    }


def measure(given: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s: {what}", file=sys.stderr, flush=True)

    period_ps = 1000 / given.clock_ghz
    mapped = map_to(given.library, given.case, given.folder, period_ps, say)
    access_ps, setup_ps = given.memory_access * period_ps, given.memory_setup * period_ps
    boxes, pin_ff = set(mapped.memories.values()), given.library.nand2().pin_ff
    (given.folder / MEMORY_LIBRARY).write_text(liberty(boxes, access_ps, setup_ps, pin_ff))
    say("static timing")
    names = [*(path.name for path in given.library.files), MEMORY_LIBRARY]
    paths = timing(given.folder, names, mapped.verilog.name, period_ps)
    say("done")
    slack_ps = paths[0].slack_ps
    return {
        "liberty": [path.name for path in given.files],
        **given.case.columns(),
        "clock_ghz": given.clock_ghz,
        "memory_access_ps": access_ps,
        "memory_setup_ps": setup_ps,
        "worst_slack_ps": slack_ps,
        "slowest_ps": period_ps - slack_ps,
        **area_rows(mapped, given.library),
        "paths": between_blocks(paths, given.case.blocks())[:SHOWN_PATHS],
    }


def show(found: dict[str, Any]) -> None:
    forward = f", forwarding of {found['forward_flits']} flits" if found["forward_flits"] else ""
    print(f"{found['ports']} ports, {found['lanes']}{forward}, in {', '.join(found['liberty'])}")
    print(
        f"worst slack {found['worst_slack_ps']:.0f} ps at {found['clock_ghz']:g} GHz: the slowest "
        f"path takes {found['slowest_ps']:.0f} ps, without wires"
    )
    print(
        f"area {found['area_um2']:,.0f} um2, {found['cells']:,} cells, "
        f"{found['gate_equivalents']:,} gate equivalents ({found['nand2']}, "
        f"{found['nand2_um2']:g} um2), without memories"
    )
    share = 100 * found["reduction_share"]
    print(f"the reduction has {found['reduction_um2']:,.0f} um2 of it, {share:.1f} %")
    sizes = ", ".join(f"{m['count']} of {m['words']} x {m['bits']}" for m in found["memories"])
    print(
        f"memories left out: {found['memory_bits']:,} bits, {sizes}; data "
        f"{found['memory_access_ps']:.0f} ps behind the edge, inputs "
        f"{found['memory_setup_ps']:.0f} ps before it"
    )
    print(f"\n{'slack ps':>9} {'delay ps':>9} {'gates':>6} {'ends':>6}  from, to")
    for path in found["paths"]:
        numbers = f"{path['slack_ps']:>9.0f} {path['delay_ps']:>9.0f} {path['gates']:>6}"
        print(f"{numbers} {path['end_points']:>6}  {path['from']}\n{'to ':>36}{path['to']}")


def main() -> int:
    given = parse()
    try:
        found = measure(given)
    except (ToolError, LibertyError) as error:
        print(error, file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
