"""Faults on purpose: each run ends right or in a named fault, in bounded time.

Each run draws a network, an algorithm, modes, a size, memory timing and one or two faults at
random places and cycles. After a fault all ranks are reset and run once more. Exit status 1 if a
run does not end, if a sum is wrong and no fault tells, or if a fault has no name:
``python bench/fault_campaign.py --runs 1000``; a single run again: ``--only SEED``;
with interfaces that forward on private links: ``--forward-flits 32``; one kind of fault at random
instead of one or two: ``--kind "flip register"``.
"""

import re
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _campaign import Campaign
from _fault_cases import KINDS, NUM_SWITCH_PORTS, Case, config_of, draw, schedule_of, states_of

from multitree import DeviceError, execute
from multitree.host.runner import make_buffers
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.sim.emulator.library import network_library
from multitree.sim.faults.injection import FlipState
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.limits import limits_of
from multitree.topology.collectives import DTYPES

NAMES = [code.name for code in FaultCode if code]
EXACT, LINK_DOWN, HOST_RESET = "exact", "LINK_DOWN", "HOST_RESET"
BAD = ("HANG", "WRONG", "UNNAMED", "TRACEBACK", "NOT_RECOVERED")
ACCESS_CYCLES = 32
COLUMNS = ("injected", "runs", "exact", "faults", "recovered", "recovered_by_second_reset")
COLUMNS += ("worst_time_over_bound", "bad", "named")


@dataclass(frozen=True)
class Outcome:
    """What became of a run; `share` is its time over its bound."""

    seed: int
    kinds: tuple[str, ...]
    name: str
    share: float
    recovered: bool | None
    num_resets: int
    text: str


@cache
def library_of(config: Config) -> Path:
    """The compiled network of interfaces, and of switches where they share links."""
    switches = {"num_switch_ports": NUM_SWITCH_PORTS} if config.shared else {}
    return network_library(config, pokes=True, **switches)


class Run:
    """A case that is run: what happens, and whether it recovers."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.schedule = schedule_of(case.network, case.algorithm, case.latency_cycles)
        self.config = config_of(case.model, self.schedule.topology.num_switches > 0)
        self.share = 0.0
        self.num_resets = 1
        self._session = RtlSession(
            self.schedule.topology,
            link_model=case.model,
            memory_timing=case.timing,
            config=self.config,
            library=library_of(self.config),
            num_threads=1,
        )
        self._upcoming = Upcoming(self.schedule, case.num_elements, case.dtype, case.op)

    def outcome(self) -> Outcome:
        """Run the case to its end, and once more after a fault."""
        recovered = None
        with self._session:
            try:
                name, text = self._faulty()
                if self.share >= 1:
                    name = "HANG"
                if name not in (EXACT, *BAD):
                    recovered = self._recovers()
                    name = name if recovered else "NOT_RECOVERED"
            except DeviceError as error:
                name, text, recovered = "NOT_RECOVERED", f"{text}; then {error}", False
            except Exception:
                name, text = "TRACEBACK", traceback.format_exc()
        resets = 0 if recovered is None else self.num_resets
        text += f"; struck: {self._struck()}" if name in BAD else ""
        return Outcome(self.case.seed, self.case.kinds, name, self.share, recovered, resets, text)

    def _recovers(self) -> bool:
        """Whether a result is right after a reset.

        What was struck may still be on its way, and come when its link is up again: a fault once
        more, after which all are reset a second time.
        """
        self._session.reset()
        try:
            return self._exact(1)
        except DeviceError:
            self.num_resets = 2
        self._session.reset()
        return self._exact(1)

    def _faulty(self) -> tuple[str, str]:
        """Name of the end and its text."""
        case = self.case
        try:
            if case.loads_ahead:
                # All else than another length would find its table loaded.
                ahead = replace(self._upcoming, num_elements=case.num_elements + 40)
                clean = "flip write" not in case.kinds or self._exact(1)
                right = clean and self._exact(case.num_collectives, faults=case.faults, then=ahead)
                right = right and self._exact(1, num_elements=ahead.num_elements)
            else:
                right = self._exact(case.num_collectives, faults=case.faults)
        except DeviceError as error:
            return name_of(str(error)), str(error)
        return (EXACT, "") if right else ("WRONG", "wrong result and no fault")

    def _struck(self) -> str:
        """The faults, and which states they are of."""
        topology = self.schedule.topology
        states = [
            states_of(self.config, fault.node >= topology.num_ranks)[fault.state].name
            for fault in self.case.faults
            if isinstance(fault, FlipState)
        ]
        return f"{', '.join(map(str, self.case.faults))} {' '.join(states)}"

    def _exact(
        self,
        count: int,
        *,
        num_elements: int | None = None,
        then: Upcoming | None = None,
        **faults: Any,
    ) -> bool:
        """Run some collectives: whether all results are right."""
        case, n = self.case, num_elements or self.case.num_elements
        ranks = self.schedule.topology.num_ranks
        buffers = [make_buffers(case.seed + k, ranks, n, case.dtype) for k in range(count)]
        bound = self._bound(n, count, ahead=then is not None)

        def progress(cycles: int) -> None:
            self.share = max(self.share, cycles / bound)

        modes = {"lockstep": case.lockstep, "start_skew_cycles": case.skews or None}
        results = self._session.run(
            self.schedule, buffers, op=case.op, then=then, progress=progress, **modes, **faults
        )
        return all(
            memory.tobytes() == execute(self.schedule, buffer, op=case.op).tobytes()
            for buffer, (memory, _) in zip(buffers, results, strict=True)
        )

    def _bound(self, num_elements: int, count: int, *, ahead: bool) -> int:
        """Cycles after which the engine gives up: whoever waits until then hangs."""
        case = self.case
        num_flits = case.model.num_flits(num_elements, DTYPES[case.dtype].itemsize)
        limits = limits_of(
            self.schedule,
            num_flits,
            case.model,
            memory_timing=case.timing,
            queue_flits=self.config.memory_queue_flits,
            max_skew_cycles=max(case.skews, default=0),
            lockstep=case.lockstep,
        )
        writes = 2 * int(np.bincount(self.schedule.src).max()) + 5 * self.schedule.num_flows
        return limits.run_cycles(count) + ahead * ACCESS_CYCLES * writes


def name_of(text: str) -> str:
    """What a DeviceError is called in the table."""
    for words, name in (
        ("not over after", "HANG"),
        ("must answer", "HANG"),
        ("link is not up", LINK_DOWN),
        ("its host reset it", HOST_RESET),
    ):
        if words in text:
            return name
    codes = [code for code in re.findall(r"\(([A-Z_]+)\)", text) if code in NAMES]
    # What a switch began is named behind it.
    known = [code for code in codes if code != FaultCode.PEER_FAULT.name] or codes
    return known[0] if known else "UNNAMED"


def run_once(seed: int, forward_flits: int = 0, kind: str | None = None) -> Outcome:
    return Run(draw(seed, forward_flits, kind)).outcome()


def table_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """A row for each kind of fault, of the runs with no other; one for those with two; the sum."""
    groups = {kind: [o for o in outcomes if o.kinds == (kind,)] for kind in KINDS}
    groups["two of them"] = [o for o in outcomes if len(o.kinds) > 1]
    groups["all"] = list(outcomes)
    rows = []
    for kind, group in groups.items():
        names = Counter(outcome.name for outcome in group)
        bad = sum(names[name] for name in BAD)
        row = {
            "injected": kind,
            "runs": len(group),
            "exact": names[EXACT],
            "faults": len(group) - names[EXACT] - bad,
            "recovered": sum(outcome.recovered is True for outcome in group),
            "recovered_by_second_reset": sum(outcome.num_resets > 1 for outcome in group),
            "worst_time_over_bound": round(max((o.share for o in group), default=0.0), 3),
            "bad": bad,
            "names": dict(names.most_common()),
            "named": ", ".join(f"{n} {count}" for n, count in names.most_common() if n != EXACT),
        }
        rows.append(row)
    return rows


def problem(outcome: Outcome) -> str | None:
    return f"{outcome.name}: {outcome.text}" if outcome.name in BAD else None


CAMPAIGN = Campaign(run_once, Outcome, problem, table_of, COLUMNS, 25, True, KINDS)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(__doc__, runs=100))
