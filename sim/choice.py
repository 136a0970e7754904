"""Which algorithm, dependency granularity and sibling order suits a size best."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from multitree.nic.driver.commands import DEPENDENCIES
from multitree.sim.analytic.engine import analytic
from multitree.sim.timing.inputs import check_store_and_forward, shares_links
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build_compact
from multitree.topology.algorithms.registry import (
    ALGORITHMS,
    SIZED,
    check_algorithm,
    lockstep_note,
)
from multitree.topology.checks.implicit import AnySchedule, written_out
from multitree.topology.collectives import check_collective
from multitree.topology.errors import ScheduleError, within
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.trees import LARGE_CHUNKS, SMALL_CHUNKS

__all__ = ["AUTO", "Candidate", "Choice", "Chooser"]

AUTO = "auto"
"""In the place of an algorithm's name: the one that a `Chooser` finds for the size."""
Variant = tuple[str, str]
CLOSE = 1.25
"""Algorithms within this ratio of the fastest are tried with all dependencies and orders."""
LEAST_PERCENT = 0.05
_TIMED_WAVES, _ROWS_AT_ONCE = 64, 256
"""Of work: waves after which the others follow alike, and rows of which one costs as a hop."""
_ORDERS = {"small": SMALL_CHUNKS, "large": LARGE_CHUNKS}
_NAMED = {"algorithm": "{}", "dependency": "dependency {}", "sibling_order": "siblings as {}"}
_AGAINST = {
    "algorithm": (),
    "dependency": ("algorithm", "sibling_order"),
    "sibling_order": ("algorithm", "dependency"),
}
"""What is compared, and what is the same meanwhile; against another algorithm's best, nothing."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Variant of a collective, and its cycles from the first start to the last done.

    In `sibling_order` "built" contributions are added in the order of the builder, in "small" and
    "large" as they are expected to arrive where chunks are short, or long.
    """

    algorithm: str
    dependency: str
    sibling_order: str
    schedule: AnySchedule
    cycles: int


@dataclass(frozen=True)
class Choice:
    """Candidates for a size, the fastest first, and why other algorithms are not among them."""

    candidates: tuple[Candidate, ...]
    problems: dict[str, str]

    @property
    def best(self) -> Candidate:
        """The fastest candidate."""
        return self.candidates[0]

    @property
    def reason(self) -> str:
        """Sentence that compares the fastest candidate with those that differ in one respect."""
        best, *rest = self.candidates
        parts = []
        for what, alike in _AGAINST.items():
            others = [
                each
                for each in rest
                if getattr(each, what) != getattr(best, what)
                and all(getattr(each, same) == getattr(best, same) for same in alike)
            ]
            if others:
                more = 100 * (others[0].cycles / max(best.cycles, 1) - 1)
                takes = f"{more:.1f} % more cycles" if more >= LEAST_PERCENT else "as many cycles"
                parts.append(f"{_NAMED[what].format(getattr(others[0], what))} takes {takes}")
        variant = ", ".join(_NAMED[what].format(getattr(best, what)) for what in _AGAINST)
        return f"{variant}: {'; '.join(parts) or 'nothing else can be timed'}"


class Chooser:
    """Choice of the fastest algorithm, dependency and sibling order on a topology for a size.

    Schedules are kept between choices. The first of `dependencies` is tried first. A schedule that
    takes longer than `limit_s` CPU seconds to build or to time is left out; 0 is no limit. `found`
    is called with each candidate as soon as it is timed.
    """

    def __init__(
        self,
        topology: Topology,
        link_model: LinkModel,
        *,
        algorithms: Iterable[str] = ALGORITHMS,
        dependencies: Sequence[str] = DEPENDENCIES[::-1],
        limit_s: float = 0,
        found: Callable[[Candidate], None] | None = None,
    ) -> None:
        self.topology = topology
        self._model = link_model
        self._algorithms = tuple(algorithms)
        self._dependencies = dependencies
        self._limit_s = limit_s
        self._found = found or (lambda candidate: None)
        self._built: dict[tuple[Any, ...], dict[str, AnySchedule] | Exception] = {}

    def choose(
        self, num_flits: int, collective: str = "all_reduce", root: int | None = None
    ) -> Choice:
        """Time all algorithms as built, with the first dependency, then variants of the fast ones.

        Fast are those within `CLOSE` of the fastest; what takes longer to time comes later.
        ScheduleError if there is no such collective or root, or nothing can be timed: says why not
        of the first algorithm. Deterministic, but for what a limit leaves out.
        """
        check_collective(collective, root, self.topology.num_ranks)
        asked = collective, root, num_flits
        variants: dict[str, list[Variant]] = {}
        problems: dict[str, str] = {}
        for name in self._algorithms:
            with self._kept_in(problems, name):
                variants[name] = self._variants_of(name, *asked)
        first = {name: (name, of_name[0]) for name, of_name in variants.items()}
        timed = self._all_timed(first, asked, problems)
        problems = {name: problems[name] for name in self._algorithms if name in problems}
        if not timed:
            raise ScheduleError(
                f"{self.topology.name}: an algorithm must be timed, not none: "
                + next(iter(problems.values()), "none is named")
            )
        longest = CLOSE * min(each.cycles for each in timed)
        more = {
            ", ".join((each.algorithm, *variant)): (each.algorithm, variant)
            for each in timed
            if each.cycles <= longest
            for variant in variants[each.algorithm][1:]
        }
        timed += self._all_timed(more, asked, problems)
        return Choice(tuple(sorted(timed, key=lambda each: each.cycles)), problems)

    def _all_timed(
        self,
        wanted: Mapping[str, tuple[str, Variant]],
        asked: tuple[str, int | None, int],
        problems: dict[str, str],
    ) -> list[Candidate]:
        """Candidates by a name for problems, in that order; timed from the least work on."""
        schedules, found = {}, {}
        for name, (algorithm, (dependency, order)) in wanted.items():
            with self._kept_in(problems, name):
                schedules[name] = self._orders_of(algorithm, dependency, *asked)[order]
        for name in sorted(schedules, key=lambda name: _work_of(schedules[name])):
            with self._kept_in(problems, name):
                found[name] = self._timed(*wanted[name], schedules[name], asked[2])
                self._found(found[name])
        return [found[name] for name in wanted if name in found]

    @contextmanager
    def _kept_in(self, problems: dict[str, str], name: str) -> Iterator[None]:
        """Keep under a name why something cannot be timed, or not soon enough."""
        try:
            yield
        except ValueError as error:
            problems[name] = str(error)
        except TimeoutError as error:
            if not self._limit_s:
                raise  # a limit around all is not this one's to handle
            problems[name] = str(error)

    def _variants_of(
        self, algorithm: str, collective: str, root: int | None, num_flits: int
    ) -> list[Variant]:
        """Dependencies and sibling orders that an algorithm can be run with."""
        check_algorithm(algorithm)
        # It takes longest to build, and without lockstep was the fastest nowhere it was tried.
        note = lockstep_note(algorithm, self.topology.num_switches, lockstep=False)
        if note is not None:
            raise ScheduleError(
                f"{self.topology.name}: {note}; it is not tried, and must be named to be timed"
            )
        dependencies = self._dependencies
        orders = self._orders_of(algorithm, dependencies[0], collective, root, num_flits)
        schedule = orders["built"].tree
        if shares_links(schedule):
            dependencies = [each for each in dependencies if each == DEPENDENCIES[0]]
            dependencies = dependencies or self._dependencies[:1]
            check_store_and_forward(schedule, replace(self._model, dependency=dependencies[0]))
        return list(product(dependencies, orders))

    def _orders_of(
        self, algorithm: str, dependency: str, collective: str, root: int | None, num_flits: int
    ) -> dict[str, AnySchedule]:
        """Schedules of an algorithm by sibling order, each order once."""
        cost_model = None
        key: tuple[Any, ...] = algorithm, collective, root
        if algorithm in SIZED:
            cost_model = replace(self._model, dependency=dependency).cost_model(
                self.topology, num_flits
            )
            key += dependency, num_flits
        if key not in self._built:
            try:
                with within(f"building {algorithm}", self._limit_s):
                    built = written_out(
                        build_compact(self.topology, algorithm, collective, root, cost_model)
                    )
                # What suits a size is ordered for its waves.
                self._built[key] = {"built": built} if cost_model else _by_order(built)
            except (ScheduleError, TimeoutError) as error:
                # An error is kept, too, so that other sizes do not build in vain again.
                self._built[key] = error
        found = self._built[key]
        if isinstance(found, Exception):
            raise found
        return found

    def _timed(
        self, algorithm: str, variant: Variant, schedule: AnySchedule, num_flits: int
    ) -> Candidate:
        dependency, order = variant
        model = replace(self._model, dependency=dependency)
        with within(f"timing {algorithm}, {dependency}, {order}", self._limit_s):
            cycles = analytic(schedule, num_flits, model).cycles
        return Candidate(algorithm, dependency, order, schedule, cycles)


def _work_of(schedule: AnySchedule) -> int:
    """Work to time a schedule, in hops of messages that are followed one by one."""
    hops = len(schedule.tree.route_links)
    if shares_links(schedule.tree):
        return hops
    # Rows on private links are timed many at once.
    return hops * min(schedule.num_waves, _TIMED_WAVES) // _ROWS_AT_ONCE


def _by_order(schedule: AnySchedule) -> dict[str, AnySchedule]:
    """Schedule as built, and with siblings in other orders as far as these differ."""
    found: dict[str, AnySchedule] = {"built": schedule}
    if schedule.group is not None:
        return found
    for name, times in _ORDERS.items():
        other = schedule.tree.reordered(times)
        if not any(np.array_equal(other.order, each.tree.order) for each in found.values()):
            found[name] = other
    return found
