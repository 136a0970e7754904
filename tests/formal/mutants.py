"""Seeded faults: each property has to catch every one that is listed for it."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.formal.solve import ToolError

__all__ = ["MUTANTS", "Mutant", "caught"]

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("topology", "hw", "nic")


@dataclass(frozen=True)
class Mutant:
    """A line of a block replaced by a wrong one.

    Parameters
    ----------
    property_name : str
        The property that has to catch it.
    path : str
        The block's file.
    old, new : str
        Text that occurs once in it, and what takes its place.
    fault : str
        What is wrong then, for people.
    """

    property_name: str
    path: str
    old: str
    new: str
    fault: str


def caught(mutant: Mutant, *, limit_seconds: int) -> bool:
    """Whether the property is refuted on a copy of the rooms with the fault in it.

    Raises
    ------
    ToolError
        If the text to replace does not occur exactly once, or the run fails otherwise.
    """
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "multitree")
        for room in ROOMS:
            shutil.copytree(ROOT / room, package / room)
        (package / "__init__.py").write_text("")
        path = package / mutant.path
        text = path.read_text()
        if text.count(mutant.old) != 1:
            raise ToolError(f"{mutant.path} must hold {mutant.old!r} once, not otherwise")
        path.write_text(text.replace(mutant.old, mutant.new))
        command = [sys.executable, "-W", "ignore", "-m", "tests.formal.run", "--smallest"]
        command += ["--no-covers", "--jobs", "1"]
        command += [mutant.property_name, "--limit", str(limit_seconds)]
        environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    if "ok  " not in done.stdout and "FAIL" not in done.stdout:
        raise ToolError(f"{mutant.fault}: {done.stdout}{done.stderr}")
    return "refuted" in done.stdout


MUTANTS = (
    Mutant(
        "stream.register",
        "hw/stream.py",
        "m.d.sync += [valid.eq(1), offered.eq(spare)]",
        "m.d.sync += [valid.eq(1), offered.eq(_bits(self.i.payload))]",
        "the spare payload is lost",
    ),
    Mutant(
        "stream.fifo",
        "hw/stream.py",
        "queue.r_en.eq(self.o.ready),",
        "queue.r_en.eq(1),",
        "payloads leave without being taken",
    ),
    Mutant(
        "arbiter.round_robin",
        "hw/arbiter.py",
        "(-2 << self.grant)",
        "(-1 << self.grant)",
        "who was granted comes first again",
    ),
    Mutant(
        "link.credits",
        "hw/link_receiver.py",
        "self.link.credit.eq(self.o.valid & self.o.ready & self.up)",
        "self.link.credit.eq(self.o.valid & self.up)",
        "a credit for a flit that is still there",
    ),
    Mutant(
        "link.credits",
        "hw/link_transmitter.py",
        "(link.credit & ~unspent) - sent",
        "(link.credit & ~unspent & ~sent) - sent",
        "a credit that comes with a flit is lost",
    ),
    Mutant(
        "acknowledger.arrivals",
        "nic/reducer.py",
        "((acked != 0) | self.ack) & (~ends.o.payload",
        "(~ends.o.payload",
        "an arrival without an acknowledgement",
    ),
    Mutant(
        "reducer.writes",
        "nic/reducer.py",
        "pair & ~operand.replace",
        "pair",
        "a replacing flit eats a response",
    ),
    Mutant(
        "reducer.arrivals",
        "nic/reducer.py",
        "acknowledger.ack.eq(self.write.ack),",
        "acknowledger.ack.eq(written),",
        "a write counts as acknowledged when it is taken",
    ),
    Mutant(
        "issuer.dependency",
        "nic/issuer.py",
        "(job.size + (self._config.submessage_flits - 1)) >> shift",
        "job.size >> shift",
        "a partial last sub-message is not awaited",
    ),
    Mutant(
        "issuer.dependency",
        "nic/issuer.py",
        "self.query.answered & asked",
        "self.query.answered",
        "an answer to an old question is taken",
    ),
    Mutant(
        "issuer.reads",
        "nic/issuer.py",
        "(left == 0) | (issued & (left == 1))",
        "(left == 0) | (issued & (left <= 2))",
        "the last flit is not read",
    ),
    Mutant(
        "issuer.window",
        "nic/issuer.py",
        "address.eq(self.run.window_base + offered.base)",
        "address.eq(self.run.window_base + offered.base + 1)",
        "reads start one flit late",
    ),
    Mutant(
        "flow_check.window",
        "nic/checks.py",
        "(entry.base + entry.size) > self.window_flits",
        "(entry.base + entry.size)[:32] > self.window_flits",
        "the end of a chunk wraps",
    ),
    Mutant(
        "admission.window",
        "nic/admission.py",
        "self.items.valid & self.items.ready & (left == 1)",
        "self.items.valid & self.items.ready & (flit.kind == Kind.TAIL) & (left == 0)",
        "a message is not ended by its size",
    ),
    Mutant(
        "fetcher.illegal",
        "nic/fetcher.py",
        "self.fault.eq(row_check.code),",
        "",
        "an illegal row raises no fault",
    ),
    Mutant(
        "fetcher.illegal",
        "nic/fetcher.py",
        "code = Mux(self.lookup.intact, flow_check.code, FaultCode.TABLE_PARITY)",
        "code = flow_check.code",
        "a flow of wrong parity is used",
    ),
    Mutant(
        "fetcher.rows",
        "nic/fetcher.py",
        "steps.go & (hand.nop | hand.taken)",
        "steps.go",
        "a row is passed over while its port is not ready",
    ),
    Mutant(
        "checker.passes",
        "nic/checker.py",
        "wrong.eq(Mux(self.of_flow, flow_check.code, row_check.code))",
        "wrong.eq(Mux(self.of_flow, 0, row_check.code))",
        "flows are not checked",
    ),
    Mutant(
        "checker.passes",
        "nic/checker.py",
        "with m.Elif(word == last_word):",
        "with m.Elif(word == 0):",
        "only a row's first word is read, and its parity never",
    ),
    Mutant(
        "checker.progress",
        "nic/checker.py",
        "with m.Elif(at == count):",
        "with m.Elif((at == count) & (at != 2)):",
        "the check reads on behind the last flow",
    ),
    Mutant(
        "control.done",
        "nic/control.py",
        "over = (self.missing == 0) & ~self.fetching & ~self.sending",
        "over = (self.missing == 0) & ~self.fetching",
        "over while a sender still reads",
    ),
    Mutant(
        "control.start",
        "nic/control.py",
        "start & ~commit_waits & ~self.check & settled",
        "start & ~self.check & settled",
        "a start overtakes the commit that came before it",
    ),
    Mutant(
        "control.progress",
        "nic/monitor.py",
        "(limit != 0) & (waited >= limit)",
        "(limit != 0) & (waited >= limit) & seen",
        "the watchdog never bites before the first arrival",
    ),
    Mutant(
        "guard.window",
        "nic/memory_guard.py",
        "(inner.address >= run.window_base) & (inner.address < end)",
        "(inner.address >= run.window_base) & (inner.address <= end)",
        "the flit behind the window passes",
    ),
    Mutant(
        "stream.quick_fifo",
        "hw/stream.py",
        "passes.eq(free & (rest.level == 0)),",
        "passes.eq(free & ~rest.o.valid),",
        "a payload overtakes one that is not yet out of the memory",
    ),
    Mutant(
        "tracker.counts",
        "nic/tracker.py",
        "& (found.phase == self.phase)",
        "",
        "a count of the collective before is told",
    ),
    Mutant(
        "tracker.counts",
        "nic/tracker.py",
        "query.count.eq(Mux(overheard, newest, count)),",
        "query.count.eq(count),",
        "what was overheard is answered from memory",
    ),
    Mutant(
        "ledger.once",
        "nic/ledger.py",
        "write.en.eq(Mux(used, self.mark, sweeping)),",
        "write.en.eq(Mux(used, self.mark, 0)),",
        "a bank is not cleared for another table",
    ),
    Mutant(
        "admission.once",
        "nic/admission.py",
        "with m.Elif(ledger.seen):",
        "with m.Elif(ledger.seen & single):",
        "a message comes in twice",
    ),
    Mutant(
        "issuer.progress",
        "nic/issuer.py",
        "room + self.returned - issued",
        "room - issued",
        "room that came free is not given back",
    ),
    Mutant(
        "link.reset",
        "hw/link_session.py",
        "with m.Elif(comes[Kind.INIT] & echoed):",
        "with m.Elif(comes[Kind.INIT]):",
        "an INIT from before the reset brings the link up",
    ),
    Mutant(
        "link.reset",
        "hw/link_transmitter.py",
        "m.d.sync += [available.eq(self._credits), number.eq(0)]",
        "m.d.sync += number.eq(0)",
        "a link that comes up again has not got its credits back",
    ),
    Mutant(
        "sender.framing",
        "nic/framer.py",
        "begun.eq(left != 1)",
        "begun.eq(0)",
        "a message ends with its first packet",
    ),
    Mutant(
        "sender.framing",
        "nic/framer.py",
        "last = (left == 1) | (place.all() & self.run.packets)",
        "last = (left == 2) | (place.all() & self.run.packets)",
        "the tail comes a flit early",
    ),
    Mutant(
        "sender.payload",
        "nic/sender.py",
        "issuer.returned.eq(payload.o.valid & payload.o.ready),",
        "issuer.returned.eq(self.memory.data_valid),",
        "room is given back before the data leave",
    ),
    Mutant(
        "reducer.progress",
        "nic/reducer.py",
        "written.eq(self.write.valid & self.write.ready),",
        "written.eq(self.write.valid & self.write.ready & self.items.valid),",
        "room of a written flit is lost",
    ),
)
