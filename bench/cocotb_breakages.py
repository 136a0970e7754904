"""One-line breakages of the generated Verilog, each to be caught by its benches.

A breakage replaces the right side of one `assign` of a design: a pin that is inverted, an address
with a flipped bit, a signal that stays low. Benches of the interface run first, those of the
network where these pass. Reported is the message of the first test that failed, and whether it
names cycle, signal and cause: it has to open with the cycle and match the expression in the
breakage's row. Exit status 1 if a breakage is not caught, or a bench of the sound design fails.

    python bench/cocotb_breakages.py --sim icarus
    python bench/cocotb_breakages.py --only link_0_tx_vc
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _bench import ended, options, refuse

from multitree.host.design.names import PREFIX
from multitree.nic.driver.config import MODULE_NAME

SPEC = "torus:2x2"
SECONDS = 900.0
FOLDER = f"{PREFIX}_cocotb"
LOCATED = re.compile(r"cycle \d+ \(\d+ ns\): ")
ROUNDS = ("bench_interface", "bench_network")
LOW, HIGH, FLIPPED, INVERTED = "0", "~0", "({}) ^ 1", "~({})"


@dataclass(frozen=True)
class Breakage:
    """A signal that is assigned in a module, what it becomes, and what the message has to name."""

    module: str
    signal: str
    change: str
    named: str

    @property
    def name(self) -> str:
        changes = {LOW: "low", HIGH: "high", FLIPPED: "bit 0 flipped", INVERTED: "inverted"}
        place = f"{self.module}." if self.module else ""
        return f"{place}{self.signal}: {changes.get(self.change, self.change)}"

    def applied(self, verilog: str) -> str:
        """The design with the line changed, in the first module of that name."""
        module = re.escape(".".join(filter(None, (MODULE_NAME, self.module))))
        opening = re.compile(rf"^module \\?{module}(\$\d+)? ?\(", re.M).search(verilog)
        if opening is None:
            raise ValueError(f"{self.name}: the design has no such module")
        line = re.compile(rf"^(  assign {self.signal} = )(.*);$", re.M)
        found = line.search(verilog, opening.end(), verilog.index("\nendmodule", opening.end()))
        if found is None:
            raise ValueError(f"{self.name}: the module assigns no such signal")
        changed = f"{found[1]}{self.change.format(found[2])};"
        return verilog[: found.start()] + changed + verilog[found.end() :]


BREAKAGES = [
    Breakage(*row)
    for row in (
        ("", "link_0_tx_valid", LOW, "link_0.*not up"),
        ("", "link_0_tx_kind", FLIPPED, "link_0_tx.*(kind|check)"),
        ("", "link_0_tx_vc", INVERTED, "link_0_tx.*(vc|channel)"),
        ("", "link_0_tx_sequence", FLIPPED, "link_0_tx.*sequence"),
        ("", "link_0_tx_epoch", INVERTED, "link_0.*epoch"),
        ("", "link_0_tx_check", FLIPPED, "link_0_tx.*check"),
        ("", "link_0_tx_payload", FLIPPED, "link_0_tx.*check"),
        ("", "link_0_rx_credit", LOW, "link_0_rx"),
        ("", "link_0_rx_credit", HIGH, "link_0_rx.*credit"),
        ("", "link_1_tx_valid", HIGH, "link_1_tx"),
        ("", "link_1_tx_sequence", "({}) & 3", "link_1_tx.*sequence"),
        ("", "link_1_tx_payload", "({}) & ~(128'd1 << 127)", "link_1_tx.*check"),
        ("", "memory_0_send_address", FLIPPED, "link_0_tx.*REDUCE|memory"),
        ("", "memory_0_send_valid", LOW, "link_0.*memory read"),
        ("", "memory_0_fetch_address", FLIPPED, "link_._tx.*REDUCE|memory"),
        ("", "memory_0_fetch_valid", LOW, "memory read"),
        ("", "memory_0_write_valid", LOW, "port 0.*memory write"),
        ("", "memory_0_write_address", FLIPPED, "memory"),
        ("", "memory_0_write_data", FLIPPED, "memory|link_._tx"),
        ("", "memory_1_write_data", "({}) | (128'd1 << 127)", "memory|link_._tx"),
        ("", "memory_1_send_address", "({}) + 1", "link_1_tx|memory"),
        ("", "s_axil_arready", LOW, "s_axil.*read"),
        ("", "s_axil_awready", LOW, "s_axil.*write"),
        ("", "s_axil_bvalid", LOW, "s_axil.*write"),
        ("", "s_axil_rvalid", LOW, "s_axil.*read"),
        ("", "s_axil_bresp", "2'd2", "write.*refused"),
        ("", "s_axil_rresp", "2'd2", "read.*refused"),
        ("", "s_axil_rdata", FLIPPED, "s_axil.*ID"),
        ("core.control", "running", LOW, "irq|link_"),
        ("core.control", "done", LOW, "irq.*done 0"),
        ("core.fetcher", "jobs__0__valid", LOW, "link_0_tx.*to come|irq"),
        ("core.fetcher", "address", FLIPPED, "link_|irq|s_axil"),
        ("core.settings_check", "legal", LOW, "SETTINGS_ILLEGAL"),
        ("core.tables.checker", "row_address", FLIPPED, "ROW_ILLEGAL"),
        ("core.tables.checker.flow_check", "num_arrivals", LOW, "irq|s_axil"),
        ("core.tables.flows", "lookups__0__granted", LOW, "link_|irq"),
        ("core.tables.flows.content", "intact", INVERTED, "TABLE_PARITY"),
        ("core.tracker", "queries__0__count", LOW, "link_|irq"),
        ("core.relay", "send_fault", HIGH, "link_|irq"),
        ("port", "arrival_flow", FLIPPED, "irq|link_|memory"),
        ("port", "arrival_last", INVERTED, "irq|link_|memory"),
        ("port", "idle", LOW, "irq.*WATCHDOG"),
        ("port.link.session", "send__epoch", FLIPPED, "link_"),
        ("port.link.receiver", "o__0__valid", LOW, "link_._rx|irq"),
        ("port.guard", "outer__write__valid", LOW, "irq|link_"),
        ("port.receiver.reducer.adder", "o", FLIPPED, "memory|link_._tx"),
        ("port.receiver.reducer", "write__valid", LOW, "irq|link_"),
        ("port.receiver.reducer.acknowledger", "marks__ready", LOW, "irq|link_"),
        ("port.sender", "query__flow", FLIPPED, "link_|irq"),
        ("port.sender.issuer", "reads__payload", FLIPPED, "link_._tx|irq|memory"),
    )
]


@dataclass(frozen=True)
class Outcome:
    """What became of a breakage: the test that failed first, and its message; empty if none did."""

    breakage: Breakage
    test: str
    message: str

    @property
    def located(self) -> bool:
        """Whether the message names cycle, signal and cause."""
        start = LOCATED.match(self.message)
        return bool(start and re.search(self.breakage.named, self.message[start.end() :], re.S))


def multitree(*arguments: str) -> dict[str, Any]:
    """What a command prints as JSON; its exit status may be 1."""
    command = [sys.executable, "-m", "multitree", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if not done.stdout:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr}")
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def failures(design: Path, simulator: str) -> Iterator[tuple[str, str]]:
    """Tests that fail on a design, with their messages; those of the interface first."""
    for only in ROUNDS:
        try:
            ran = multitree("cocotb", str(design / FOLDER), "--sim", simulator, "--only", only)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            yield only, str(error)
            continue
        yield from ((t["name"], t["message"]) for t in ran["tests"] if not t["passed"])


def outcomes(breakages: list[Breakage], simulator: str) -> Iterator[Outcome]:
    """Break a design in one way after the other, and run its benches."""
    with tempfile.TemporaryDirectory() as name:
        sound = Path(name, "sound")
        options = ["--bench", "--dtypes", "int32", "--out", str(sound)]
        multitree("verilog", SPEC, *options)
        verilog = (sound / f"{MODULE_NAME}.v").read_text()
        broken = [(breakage, breakage.applied(verilog)) for breakage in breakages]
        if failed := next(failures(sound, simulator), None):
            sys.exit(f"The sound design fails: {failed[0]}: {failed[1]}")
        for breakage, text in broken:
            design = Path(name, "broken")
            shutil.copytree(sound, design, ignore=shutil.ignore_patterns("build"))
            (design / f"{MODULE_NAME}.v").write_text(text)
            test, message = next(failures(design, simulator), ("", ""))
            yield Outcome(breakage, test, message)
            shutil.rmtree(design)


def main() -> int:
    given = options(
        __doc__,
        sim={"choices": ("icarus", "verilator"), "default": "icarus"},
        only={"default": "", "help": "breakages whose names this expression matches"},
    )
    chosen = [each for each in BREAKAGES if re.search(given.only, each.name)]
    if not chosen:
        refuse(f"no breakage has a name with {given.only!r}")
    rows = []
    for outcome in outcomes(chosen, given.sim):
        row = {"name": outcome.breakage.name, "test": outcome.test, "message": outcome.message}
        rows.append(row | {"named": outcome.located})
        verdict = "named" if outcome.located else "caught" if outcome.test else "NOT CAUGHT"
        print(f"{row['name']}  {verdict}\n  {outcome.message}", file=sys.stderr)
    caught, named = (sum(bool(row[key]) for row in rows) for key in ("test", "named"))
    totals = {"num_breakages": len(rows), "num_caught": caught, "num_named": named}
    said = f"{len(rows)} breakages: {caught} caught, {named} named by cycle, signal and cause"
    return ended(given, caught == len(rows), totals | {"breakages": rows}, said)


if __name__ == "__main__":
    sys.exit(main())
