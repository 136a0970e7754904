"""Area and clock of the interface on ECP5 and UltraScale+, by Yosys and nextpnr.

Synthesises the interface in several sizes and counts what it takes: ``python bench/synthesis.py``.
With ``--seeds 1,2,3`` each of them is placed and routed on an ECP5-85k (speed grade 6, out of
context) with every seed, as long as there is time; the slowest one counts, and the path that
limits its clock is named. `--json` for programs.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from _bench import ended
from _cases import SPEC, Case
from _place import missing_nextpnr, route_all
from _yosys import ToolError, missing_yosys, yosys

from multitree.nic.driver.config import MODULE_NAME
from multitree.nic.layouts import FLOW_ENTRY, ROW

LANES = ("int32", "float32")
WAVE_WIDTH = 9
"""Of interfaces that repeat their table: for 512 waves."""
SIZES = (
    *(Case(*sizes) for sizes in product((1, 4, 6), (16,), LANES)),
    *(Case(*sizes) for sizes in product((1, 4), (64,), LANES)),
    *(Case(1, 16, "int32", WAVE_WIDTH), Case(4, 16, "int32", WAVE_WIDTH)),
    Case(4, 16, "float32", WAVE_WIDTH),
)
# On the ECP5 wide multiplexers, and carry chains that compare with constants, cost 6 % more LUT4,
# and seeds are as fast on average.
PASSES = {
    "ecp5": f"synth_ecp5 -nowidelut -cmp2softlogic -top {MODULE_NAME} -json {{stem}}.json",
    "xcup": f"synth_xilinx -family xcup -flatten -noiopad -top {MODULE_NAME}",
}
# What one cell of the netlist is: a resource, and how many of it.
CELLS: dict[str, dict[str, tuple[str, float]]] = {
    "ecp5": {
        "LUT4": ("lut", 1),
        "CCU2C": ("lut", 2),
        "TRELLIS_DPR16X4": ("lut_ram", 4),
        "TRELLIS_FF": ("ff", 1),
        "DP16KD": ("block_ram", 1),
        "MULT18X18D": ("dsp", 1),
    },
    "xcup": {
        **{f"LUT{n}": ("lut", 1) for n in range(1, 7)},
        **{f"FD{kind}": ("ff", 1) for kind in ("RE", "SE", "CE", "PE")},
        **{"RAM32M": ("lut_ram", 4), "RAM64M": ("lut_ram", 4), "RAM32X1D": ("lut_ram", 2)},
        **{"RAM32M16": ("lut_ram", 8), "RAM64M8": ("lut_ram", 8), "RAM64X1D": ("lut_ram", 2)},
        **{"RAMB18E2": ("block_ram", 0.5), "RAMB36E2": ("block_ram", 1), "DSP48E2": ("dsp", 1)},
    },
}
RESOURCES = ("lut", "lut_ram", "ff", "block_ram", "dsp")
COUNTS = ("lut", "lut_per_port", *RESOURCES[1:])
HEADINGS = ("lut", "per port", *RESOURCES[1:])
ROW_FORMAT = "{:<5} {:>5} {:>5} {:<8} {:>5} {:>7} {:>5} {:>8} {:>8} {:>8} {:>8} {:>6} {:>4} {:>9}"


def synthesise(verilog: Path, family: str) -> dict[str, float]:
    stem = f"{verilog.stem}.{family}"
    script = PASSES[family].format(stem=stem)
    lines = (f"read_verilog {verilog.name}", script, f"tee -q -o {stem}.stat stat -json")
    yosys(verilog.parent, stem, lines)
    text = (verilog.parent / f"{stem}.stat").read_text()
    cells = json.loads(text)["design"]["num_cells_by_type"]
    counts = dict.fromkeys(RESOURCES, 0.0)
    for cell, number in cells.items():
        if cell in CELLS[family]:
            resource, each = CELLS[family][cell]
            counts[resource] += each * number
    return counts


def measure(
    folder: Path, cases: list[Case], families: list[str], jobs: int
) -> Iterator[tuple[Case, Path, dict[str, Any]]]:
    """Synthesise every case for every family; yields rows in order."""

    def rows_of(case: Case) -> list[tuple[Case, Path, dict[str, Any]]]:
        print(f"synthesis of {case}", file=sys.stderr, flush=True)
        verilog, rows = case.write_verilog(folder), []
        for family in families:
            counts = synthesise(verilog, family)
            row: dict[str, Any] = {"family": family, **case.columns(), **counts}
            row |= {"lut_per_port": counts["lut"] / case.ports, "mhz": None, "path": None}
            rows.append((case, verilog, row))
        return rows

    with ThreadPoolExecutor(jobs) as pool:
        for rows in pool.map(rows_of, cases):
            yield from rows


def show(row: dict[str, Any]) -> None:
    mhz = "" if row["mhz"] is None else f"{row['mhz']:.1f} MHz"
    counts = [f"{row[name]:.0f}" if name == "lut_per_port" else f"{row[name]:g}" for name in COUNTS]
    names = [row[name] for name in ("family", "ports", "flit_bits", "lanes", "wave_width")]
    sizes = [row[name] for name in ("forward_flits", "adder_stages")]
    print(ROW_FORMAT.format(*names, *sizes, *counts, mhz), flush=True)
    if row["modes"] != Case.modes:
        print(f"      modes: {row['modes']}", flush=True)
    if row["path"]:
        for seed in row["seeds"]:
            reached = "no clock" if seed["mhz"] is None else f"{seed['mhz']:.1f} MHz"
            print(f"      seed {seed['seed']}: {reached}, {seed['path']}", flush=True)


def _numbers(text: str) -> list[int]:
    """Numbers of seeds; a ValueError if these are none, or one comes twice."""
    seeds = [int(part) for part in text.split(",")]
    if min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ValueError("twice, or below 0")
    return seeds


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """What was asked for; exit status 2 where that cannot be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/synthesis"))
    parser.add_argument("--families", default="ecp5,xcup", help="ecp5, xcup or both")
    parser.add_argument("--only", metavar="LIST", help=f"{SPEC} with commas between")
    parser.add_argument("--seeds", metavar="LIST", help="place and route all, with each of these")
    parser.add_argument(
        "--route-minutes", type=float, default=480.0, help="for all seeds of all the list"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    given.families = given.families.split(",")
    if unknown := [each for each in given.families if each not in PASSES]:
        parser.error(f"--families must be some of {', '.join(PASSES)}, not {unknown[0]!r}")
    if given.jobs < 1 or not 0 < given.route_minutes < float("inf"):
        parser.error("--jobs must be at least 1, and --route-minutes above 0 and finite")
    try:
        listed = given.only.split(",") if given.only else []
        given.only = [Case.parse(text) for text in listed]
        if len(set(given.only)) < len(given.only):
            raise ValueError("An interface must be listed once, not twice")
    except ValueError as error:
        parser.error(f"--only: {error}")
    try:
        given.seed_numbers = _numbers(given.seeds) if given.seeds is not None else []
    except ValueError:
        parser.error(f"--seeds must be different numbers from 0 on, not {given.seeds!r}")
    if given.seeds is not None and "ecp5" not in given.families:
        parser.error("--seeds are of place and route, which --families must have ecp5 for")
    try:
        given.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--folder: {error}")
    needed = [missing_yosys(), missing_nextpnr() if given.seed_numbers else None]
    for message in filter(None, needed):
        parser.error(message)
    return given


def main() -> int:
    given = parse()
    cases = given.only or list(SIZES)
    if not given.json:
        sizes = ("ports", "flit", "lanes", "waves", "forward", "adder")
        print(ROW_FORMAT.format("", *sizes, *HEADINGS, ""))
    rows, places = [], {}
    try:
        for case, verilog, row in measure(given.folder, cases, given.families, given.jobs):
            rows.append(row)
            if row["family"] == "ecp5":
                places[case] = verilog, row
            if not given.json:
                show(row)
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    jobs = [(*places[case], case.blocks()) for case in cases if given.seed_numbers]
    route_all(jobs, given.seed_numbers, 60 * given.route_minutes, given.jobs)
    bits = {"row_bits": ROW.size, "flow_bits": FLOW_ENTRY.size, "paper_bits": 200}
    for _, row, _ in () if given.json else jobs:
        show(row)
    said = f"A row of the table has {bits['row_bits']} bits, a flow {bits['flow_bits']}; "
    said += f"the paper's table has about {bits['paper_bits']} per entry."
    return ended(given, True, {**bits, "rows": rows}, said)


if __name__ == "__main__":
    sys.exit(main())
