"""From a netlist to a verdict: Yosys writes AIGER, ABC proves or refutes it."""

import importlib.metadata
import importlib.util
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from multitree.sim.native_build import content_key

__all__ = ["ToolError", "Verdict", "missing", "solve"]

FOLDED = "folded.aig"
YOSYS = "from pyosys.libyosys import Design, run_pass; run_pass('script top.ys', Design())"
SCRIPT = """
read_rtlil top.il
prep -top top -flatten
memory_nordff
memory_map
async2sync
chformal -lower
formalff -clk2ff
dffunmap
opt -full
techmap
opt
aigmap
opt_clean
write_aiger -I -B -zinit top.aig
"""


class ToolError(RuntimeError):
    """A tool is missing or failed."""


@dataclass(frozen=True)
class Verdict:
    """What the solver found.

    `outcome` is "proved", "bounded" (no counterexample up to `depth`), "refuted" (one at cycle
    `depth`) or "undecided" (out of time). `seconds` are of the processor, both tools.
    """

    outcome: str
    depth: int | None
    seconds: float


def missing():
    """What the properties lack on this machine, and how to get it; or an empty string."""
    there = importlib.util.find_spec("pyosys")
    return "" if there else "Yosys is not installed (pip install 'multitree[formal]')"


def _abc():
    """The program that comes with Yosys."""
    return Path(importlib.util.find_spec("pyosys").origin).parent / "yosys-abc"


@cache
def _versions():
    """What tells both tools from others of their name; ABC has no version but its program."""
    if missing():
        return ("not installed",)
    return importlib.metadata.version("pyosys"), content_key(_abc().read_bytes())


def _run(command, folder, limit_seconds=None):
    """What a program says, also if it was stopped after its time on the processor."""

    def limit():
        if limit_seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_seconds, limit_seconds + 1))

    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, preexec_fn=limit
    )
    if done.returncode not in (0, -signal.SIGXCPU):
        raise ToolError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def solve(
    netlist: str, *, depth: int | None, limit_seconds: int, kept: Path | None = None
) -> Verdict:
    """Prove the one assertion of a netlist in RTLIL, or search `depth` cycles from reset.

    A proof is by property-directed reachability (Een, Mishchenko, Brayton, FMCAD 2011), whose
    invariant ABC checks. The limit is of the solver's own processor time. Verdicts are kept in a
    folder by what was solved and by what: script, engine, the versions of both tools. Raises
    `ToolError` where Yosys or ABC is missing or fails.
    """
    engine = "pdr" if depth is None else f"bmc3 -F {depth}"
    key = content_key(netlist, SCRIPT, engine, *_versions())
    known = None if kept is None else kept / f"{key}.json"
    if known is not None and known.exists():
        return Verdict(**json.loads(known.read_text()))
    verdict = _solve(netlist, engine, depth, limit_seconds)
    if known is not None and verdict.outcome != "undecided":
        kept.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole: a run that is stopped leaves no half a verdict.
        with tempfile.NamedTemporaryFile("w", dir=kept, delete=False) as file:
            file.write(json.dumps(asdict(verdict)))
        Path(file.name).rename(known)
    return verdict


def _solve(netlist, engine, depth, limit_seconds):
    """Run the tools."""
    if missing():
        raise ToolError(missing())
    began = _used_seconds()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "top.il").write_text(netlist)
        Path(folder, "top.ys").write_text(SCRIPT)
        script = f"read_aiger top.aig\nfold\nstrash\nwrite_aiger {FOLDED}\n{engine}\n"
        Path(folder, "top.abc").write_text(script)
        _run([sys.executable, "-c", YOSYS], folder)
        # Not the solver's own limit, which is by the clock on the wall.
        text = _run([str(_abc()), "-f", "top.abc"], folder, limit_seconds)
        if depth is None and _never(Path(folder, FOLDED).read_bytes()):
            return Verdict("proved", None, _used_seconds() - began)
    return _verdict(text, depth, _used_seconds() - began)


def _never(aiger):
    """Whether the one output is the constant 0, of which ABC's engine says "solved" and no more.

    Binary AIGER: a header `aig M I L O A`, a line for each latch, then the output's literal.
    """
    lines = aiger.split(b"\n")
    num_latches, num_outputs = lines[0].split()[3:5]
    return num_outputs == b"1" and lines[1 + int(num_latches)] == b"0"


def _used_seconds():
    """Processor time of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _verdict(text, depth, seconds):
    """Read ABC's words; what it does not say is undecided, never proved."""
    refuted = re.search(r"was asserted in frame (\d+)", text)
    if refuted:
        return Verdict("refuted", int(refuted[1]), seconds)
    if depth is None and "Property proved" in text:
        return Verdict("proved", None, seconds)
    searched = re.search(r"No output (?:was )?asserted in (\d+) frames", text)
    if depth is not None and searched and int(searched[1]) >= depth:
        return Verdict("bounded", depth, seconds)
    return Verdict("undecided", None, seconds)
