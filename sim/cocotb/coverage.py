"""Functional coverage: crosses of values, and how often each was hit."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from multitree.nic.driver.config import Config
from multitree.sim.cocotb.case import LEVELS, STALLS
from multitree.sim.cocotb.link_end import LINK_FAULTS
from multitree.topology.collectives import OPS, Op

__all__ = ["BOUNDARIES", "LENGTHS", "Coverage", "Group", "bench_bins"]

Value = str | int
LENGTHS = ("whole flits", "part of a flit", "empty")
BOUNDARIES = ("link credits", "link data", "memory")


class Group:
    """Cross of values: every combination of its axes' values is a bin, except those left out.

    Parameters
    ----------
    name : str
    axes : dict of str to tuple
        Values, strings or integers, by the name of their axis.
    without : callable, optional
        Takes the axes by name; true for an impossible combination.
    """

    def __init__(
        self,
        name: str,
        axes: Mapping[str, Sequence[Value]],
        *,
        without: Callable[..., bool] = lambda **values: False,
    ) -> None:
        self.name, self.axes = name, axes
        combinations = itertools.product(*axes.values())
        self.hits = {
            combination: 0
            for combination in combinations
            if not without(**dict(zip(axes, combination, strict=True)))
        }

    def hit(self, **values: Value) -> None:
        """Count one combination; KeyError if it is not a bin."""
        self.hits[tuple(values[axis] for axis in self.axes)] += 1

    @property
    def missing(self) -> list[tuple[Value, ...]]:
        """Combinations without a hit."""
        return [combination for combination, count in self.hits.items() if not count]


class Coverage:
    """Groups of bins, over one run or several."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self.groups = {group.name: group for group in groups}

    def hit(self, group: str, **values: Value) -> None:
        """Count one bin of a group."""
        self.groups[group].hit(**values)

    def misses(self, group: str, **values: Value) -> bool:
        """True if a bin has no hit."""
        bins = self.groups[group]
        return not bins.hits[tuple(values[axis] for axis in bins.axes)]

    def missing(self, names: Iterable[str] | None = None) -> list[str]:
        """Bins without a hit, in words; of all groups or of the named ones."""
        return [
            f"{name}: " + ", ".join(map(str, combination))
            for name in names or self.groups
            for combination in self.groups[name].missing
        ]

    def save(self, path: str | Path) -> None:
        """Write bins and counts as JSON."""
        content = {
            name: {"axes": dict(group.axes), "hits": [*group.hits.items()]}
            for name, group in self.groups.items()
        }
        Path(path).write_text(json.dumps(content))

    @classmethod
    def load(cls, path: str | Path) -> "Coverage":
        """Read what `save` wrote."""
        groups = []
        for name, entry in json.loads(Path(path).read_text()).items():
            axes = {axis: tuple(values) for axis, values in entry["axes"].items()}
            groups.append(Group(name, axes))
            groups[-1].hits = {tuple(values): count for values, count in entry["hits"]}
        return cls(groups)

    def merge(self, path: str | Path) -> None:
        """Add the counts of another run; KeyError if its bins differ."""
        for name, group in Coverage.load(path).groups.items():
            for combination, count in group.hits.items():
                self.groups[name].hits[combination] += count

    @property
    def summary(self) -> str:
        """Hit bins of all bins, by group."""
        counts = [
            f"{group.name} {len(group.hits) - len(group.missing)}/{len(group.hits)}"
            for group in self.groups.values()
        ]
        return ", ".join(counts)

    def table(self) -> str:
        """Bins and their counts in Markdown, a table for each group.

        Rows are combinations of all axes but the last, whose values are the columns; with one axis,
        a row is a value.
        """
        return "\n".join(line for group in self.groups.values() for line in _lines(group))


def bench_bins(config: Config, stalls: str = "heavy") -> Coverage:
    """Bins that collectives on these interfaces can reach, with stalls of one of the `LEVELS`."""
    payloads = {
        "direction": ("in", "out"),
        "op": (Op.REDUCE.name, Op.GATHER.name),
        "payload": ("yes", "no"),
    }
    held = {"boundary": BOUNDARIES, "stall": STALLS if stalls == "heavy" else LEVELS[stalls]}
    return Coverage(
        [
            Group("type x reduction", {"dtype": config.dtypes, "reduction": tuple(OPS)}),
            Group("length", {"length": LENGTHS}),
            Group("message", payloads),
            Group("stall", held),
            Group("fault of a link", {"fault": LINK_FAULTS}),
        ]
    )


def _lines(group: Group) -> Iterator[str]:
    done = len(group.hits) - len(group.missing)
    yield from (f"{group.name}: {done} of {len(group.hits)} bins", "")
    *rows, last = group.axes
    columns = group.axes[last] if rows else ("count",)
    yield _row(" / ".join(rows) or last, columns)
    yield "|---" * (1 + len(columns)) + "|"
    for row in itertools.product(*(group.axes[axis] for axis in rows or [last])):
        names = [(*row, value) for value in columns] if rows else [row]
        counts = [group.hits.get(name, "") for name in names]
        # Rows of which no combination is a bin would be empty.
        if any(count != "" for count in counts):
            yield _row(", ".join(map(str, row)), counts)
    yield ""


def _row(first: str, cells: Iterable[Value]) -> str:
    return f"| {first} | " + " | ".join(map(str, cells)) + " |"
