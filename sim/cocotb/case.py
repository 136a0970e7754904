"""What a folder of benches runs: schedule, interfaces, data, stalls, modules."""

import json
import os
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from multitree.nic.driver.config import Config
from multitree.topology.files.load_save import load_schedule
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "CASE_FILE",
    "LEVELS",
    "LONG_CYCLES",
    "SCHEDULE_FILE",
    "STALLS",
    "STALLS_VARIABLE",
    "BenchCase",
    "BenchTop",
    "Stall",
    "worst",
]

STALLS = ("0 %", "1-49 %", "50-99 %", "100 % for a while")
"""Classes of stalls, by the share of the cycles in which something could have moved."""
LEVELS = {"none": STALLS[:1], "light": STALLS[:2], "heavy": STALLS}
"""Classes that are drawn from, by a name for people."""
LONG_CYCLES = 32
"""As many cycles on end without a move are a while."""
_CHANCES = {STALLS[0]: (0.0, 0.0), STALLS[1]: (0.1, 0.4), STALLS[2]: (0.55, 0.85)}
_PAUSE_CHANCE = 0.005


class Stall:
    """Random stalls of a boundary, cycle by cycle, and their measured class.

    Examples
    --------
    >>> stall = Stall(random.Random(1))
    >>> stall.choose("50-99 %")
    >>> sum(stall.held() for _ in range(1000)) > 500, stall.measured
    (True, '50-99 %')
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.choose(STALLS[0])

    def choose(self, kind: str) -> None:
        """Begin anew with one of the classes in `STALLS`."""
        self._chance = self._rng.uniform(*_CHANCES.get(kind, (0.0, 0.5)))
        self._pauses = kind == STALLS[3]
        self._pause = 0
        self._asked = self._held = self._run = self._longest = 0

    def stop(self) -> None:
        """Hold everything up from now on."""
        self._chance, self._pauses = 1.0, False

    def held(self) -> bool:
        """True if what could move in this cycle is held up."""
        if self._pause:
            self._pause -= 1
            held = True
        # The first question begins a pause, so that short runs have one, too.
        elif self._pauses and (not self._asked or self._rng.random() < _PAUSE_CHANCE):
            self._pause = self._rng.randrange(LONG_CYCLES, 3 * LONG_CYCLES)
            held = True
        else:
            held = self._rng.random() < self._chance
        self._asked += 1
        self._held += held
        self._run = self._run + 1 if held else 0
        self._longest = max(self._longest, self._run)
        return held

    @property
    def asked(self) -> int:
        """Cycles in which something could have moved."""
        return self._asked

    @property
    def measured(self) -> str:
        """Class of the stalls since `choose`."""
        if self._longest >= LONG_CYCLES:
            return STALLS[3]
        if not self._held:
            return STALLS[0]
        return STALLS[1] if 2 * self._held < self._asked else STALLS[2]


def worst(stalls: Iterable[Stall]) -> str | None:
    """Worst class of those stalls that were asked at all, or None."""
    classes = [STALLS.index(stall.measured) for stall in stalls if stall.asked]
    return STALLS[max(classes)] if classes else None


CASE_FILE, SCHEDULE_FILE = "case.json", "schedule.json"
STALLS_VARIABLE = "MULTITREE_BENCH_STALLS"
"""Variable of the environment that holds in place of what a case says."""
SCHEMA = "multitree.bench.v1"


@dataclass(frozen=True)
class BenchTop:
    """Design of a folder, and the Python modules with tests that drive it.

    `sources` are Verilog files relative to the folder; tests of `fault_modules` inject faults;
    `blocks` come several times in the design and are compiled once.
    """

    top: str
    sources: tuple[str, ...]
    num_interfaces: int
    modules: tuple[str, ...]
    fault_modules: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchCase:
    """Schedule, interfaces, data and modules of a folder of benches.

    Parameters
    ----------
    schedule : Schedule
    config : Config
        Of the interfaces.
    rank : int
        Whose interface is driven alone.
    num_elements : int
        Of one rank's buffer.
    tops : tuple of BenchTop
    stalls : str
        One of `LEVELS`.

    Raises
    ------
    ValueError
        If there is no such rank or level, or the buffer is empty.
    """

    schedule: Schedule
    config: Config
    rank: int
    num_elements: int
    tops: tuple[BenchTop, ...] = ()
    stalls: str = "light"

    def __post_init__(self) -> None:
        most = self.schedule.topology.num_ranks - 1
        if not 0 <= self.rank <= most:
            raise ValueError(f"Rank must be in 0..{most}, not {self.rank}")
        if self.num_elements < 1:
            raise ValueError(f"Number of elements must be at least 1, not {self.num_elements}")
        if self.stalls not in LEVELS:
            raise ValueError(f"Stalls must be one of {', '.join(LEVELS)}, not {self.stalls!r}")

    @property
    def shape(self) -> tuple[int, int]:
        """Ranks, and elements of one of them."""
        return self.schedule.topology.num_ranks, self.num_elements

    def text(self) -> str:
        """Content of the file case.json; the schedule has a file of its own."""
        fields = {
            "rank": self.rank,
            "num_elements": self.num_elements,
            "stalls": self.stalls,
            "config": asdict(self.config),
            "tops": [asdict(top) for top in self.tops],
        }
        return json.dumps({"schema": SCHEMA} | fields, indent=2) + "\n"

    @classmethod
    def load(cls, folder: str | Path, variables: Mapping[str, str] = os.environ) -> "BenchCase":
        """Read the case of a folder, changed by the variable MULTITREE_BENCH_STALLS.

        OSError or ValueError, which names the file, if it cannot be read or is malformed.
        """
        path = Path(folder, CASE_FILE)
        try:
            fields = _fields(path)
            case = cls(schedule=load_schedule(Path(folder, SCHEDULE_FILE)), **fields)
        except (KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}: file must be a bench's case, {SCHEMA}: {error}") from error
        return replace(case, stalls=variables.get(STALLS_VARIABLE, case.stalls))


def _fields(path: Path) -> dict[str, Any]:
    """Fields of a case file."""
    fields: dict[str, Any] = json.loads(path.read_text())
    if fields.pop("schema") != SCHEMA:
        raise TypeError("of another schema")
    sizes = fields.pop("config")
    tops = [BenchTop(**with_tuples(top)) for top in fields.pop("tops")]
    return fields | {"config": Config(**with_tuples(sizes)), "tops": tuple(tops)}


def with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    # JSON has lists where fields of frozen dataclasses are tuples.
    return {k: tuple(value) if isinstance(value, list) else value for k, value in fields.items()}
