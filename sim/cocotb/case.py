"""What a folder of benches runs: schedule, interfaces, data, stalls, modules."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from multitree.nic.config import Config
from multitree.sim.cocotb.stalls import LEVELS
from multitree.topology.files.files import load_schedule
from multitree.topology.schedules.schedule import Schedule

__all__ = ["CASE_FILE", "SCHEDULE_FILE", "STALLS_VARIABLE", "BenchCase", "BenchTop"]

CASE_FILE, SCHEDULE_FILE = "case.json", "schedule.json"
STALLS_VARIABLE = "MULTITREE_BENCH_STALLS"
"""Variable of the environment that holds in place of what a case says."""
SCHEMA = "multitree.bench.v1"


@dataclass(frozen=True)
class BenchTop:
    """A design, and the Python modules with tests that drive it.

    Parameters
    ----------
    top : str
        Module of the design.
    sources : tuple of str
        Its Verilog, relative to the folder.
    num_interfaces : int
        Of the design.
    modules : tuple of str
        Names of Python modules in the folder.
    fault_modules : tuple of str
        Those whose tests do something wrong on purpose.
    blocks : tuple of str
        Modules of the design that come several times, for `sim.cocotb.simulators.simulate`.
    """

    top: str
    sources: tuple[str, ...]
    num_interfaces: int
    modules: tuple[str, ...]
    fault_modules: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchCase:
    """What the benches of a folder run.

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
        One of `stalls.LEVELS`.

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
        """Check rank, length and level."""
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
        """Content of the file `CASE_FILE`; the schedule has a file of its own."""
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
        """The case whose files are in a folder, changed by `STALLS_VARIABLE`.

        Parameters
        ----------
        folder : str or pathlib.Path
        variables : mapping of str to str

        Raises
        ------
        OSError
            If a file cannot be read.
        ValueError
            If it says something that cannot be, and names the file.
        """
        path = Path(folder, CASE_FILE)
        try:
            fields = _fields(path)
            case = cls(schedule=load_schedule(Path(folder, SCHEDULE_FILE)), **fields)
        except (KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}: file must be a bench's case, {SCHEMA}: {error}") from error
        return replace(case, stalls=variables.get(STALLS_VARIABLE, case.stalls))


def _fields(path: Path) -> dict[str, Any]:
    """The fields of a case but for its schedule."""
    fields: dict[str, Any] = json.loads(path.read_text())
    if fields.pop("schema") != SCHEMA:
        raise TypeError("of another schema")
    sizes = fields.pop("config")
    tops = [BenchTop(**with_tuples(top)) for top in fields.pop("tops")]
    return fields | {"config": Config(**with_tuples(sizes)), "tops": tuple(tops)}


def with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where the fields of our classes are tuples."""
    return {k: tuple(value) if isinstance(value, list) else value for k, value in fields.items()}
