"""Static timing by OpenSTA, and critical paths by the blocks that they join."""

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import run
from typing import Any

from _cases import block_of
from _yosys import ToolError

from multitree.nic.driver.config import MODULE_NAME

STA = "sta"
MOST_PATHS = 5000
"""End points that are looked at, slowest first, for paths between different blocks."""
# Points of a path are pins: the first one's output, input and output of each gate, the last input.
SCRIPT = """{read}
read_verilog {verilog}
link_design {top}
set_cmd_units -time ps -capacitance fF
create_clock -name clk -period {period_ps:g} [get_ports clk]
set inputs {{}}
foreach port [all_inputs] {{
  if {{[get_full_name $port] != "clk"}} {{ lappend inputs $port }}
}}
set_input_delay 0 -clock clk $inputs
set_output_delay 0 -clock clk [all_outputs]
foreach path [find_timing_paths -path_delay max -group_count {paths}] {{
  set points [get_property $path points]
  set start [get_full_name [get_property [lindex $points 0] pin]]
  set end [get_full_name [get_property [lindex $points end] pin]]
  set arrival [get_property [lindex $points end] arrival]
  puts "path [get_property $path slack] $arrival [llength $points] $start $end"
}}
"""
NUMBERS = re.compile(r"_\d+\b")
PATH = re.compile(r"^path (\S+) (\S+) (\d+) (\S+) (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class TimedPath:
    """A path as OpenSTA found it: pins at both ends, gates between them."""

    slack_ps: float
    delay_ps: float
    gates: int
    start: str
    end: str


def missing_sta() -> str | None:
    if shutil.which(STA) is None:
        return (
            f"there is no OpenSTA ({STA}) on the path (Debian and Ubuntu: apt-get install opensta)"
        )
    return None


def timing(
    folder: Path, libraries: Iterable[str], verilog: str, period_ps: float
) -> list[TimedPath]:
    """The slowest path to each of the slowest end points, worst first."""
    read = "\n".join(f"read_liberty {name}" for name in libraries)
    script = SCRIPT.format(
        read=read, verilog=verilog, top=MODULE_NAME, period_ps=period_ps, paths=MOST_PATHS
    )
    (folder / "timing.tcl").write_text(script)
    command = [STA, "-no_init", "-no_splash", "-exit", "timing.tcl"]
    done = run(command, cwd=folder, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    errors = re.findall(r"^Error: .*", said, re.MULTILINE)
    paths = parse(said)
    if errors or done.returncode or not paths:
        last = errors[0] if errors else "it found no path"
        raise ToolError(f"{folder / 'timing.tcl'}: OpenSTA failed: {last}")
    return paths


def parse(said: str) -> list[TimedPath]:
    return sorted(
        (
            TimedPath(float(slack), float(delay), max(int(points) - 2, 0) // 2, start, end)
            for slack, delay, points, start, end in PATH.findall(said)
        ),
        key=lambda path: path.slack_ps,
    )


def between_blocks(paths: Sequence[TimedPath], blocks: Mapping[str, str]) -> list[dict[str, Any]]:
    """The slowest path of each pair of blocks, with equal ports of the interface taken as one."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for path in paths:
        first, last = (block_of(_dotted(pin), blocks) for pin in (path.start, path.end))
        pair = NUMBERS.sub("", first), NUMBERS.sub("", last)
        if pair not in rows:
            rows[pair] = {"from": first, "to": last, "delay_ps": path.delay_ps}
            rows[pair] |= {"slack_ps": path.slack_ps, "gates": path.gates, "end_points": 0}
        rows[pair]["end_points"] += 1
    return list(rows.values())


def _dotted(pin: str) -> str:
    """A pin's name as a path of blocks: without escapes, and with points between modules."""
    return pin.replace("\\", "").replace("/", ".")
