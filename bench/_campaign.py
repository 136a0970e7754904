"""Seeded campaigns: runs shared out to processes and kept as they end."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from _bench import Row, ended, options, reported

Outcome = TypeVar("Outcome")
"""What became of a run: a dataclass with its `seed`."""

SECONDS_BETWEEN = 10.0


@dataclass(frozen=True)
class Campaign(Generic[Outcome]):
    """What a campaign runs, in processes of their own, and how it is judged and shown."""

    run: Callable[..., Outcome]  # by its seed; also by `forward_flits` and `kind`, if it has them
    outcome: type[Outcome]
    problem: Callable[[Outcome], str | None]  # what is wrong, in one line
    table_of: Callable[[Sequence[Outcome]], list[Row]]
    columns: tuple[str, ...] = ()  # of its rows, for people; all if empty
    chunk: int = 1  # seeds that one process takes at a time
    can_forward: bool = False
    kinds: tuple[str, ...] = ()  # of what happens to runs, of which one may be chosen

    def main(self, description: str | None, *, runs: int) -> int:
        forward = {"type": int, "default": 0, "help": "on private links"}
        given = options(
            description,
            runs=runs,
            seed={"type": int, "default": 1, "help": "the first; runs count up from it"},
            jobs=2,
            only={"type": int, "metavar": "SEED", "help": "one run, and all about it"},
            results={"type": Path, "help": "file that keeps outcomes, to go on later"},
            **{"forward_flits": forward} if self.can_forward else {},
            **{"kind": {"choices": self.kinds, "help": "of all runs"}} if self.kinds else {},
        )
        modes = {"forward_flits": given.forward_flits} if self.can_forward else {}
        modes |= {"kind": given.kind} if self.kinds else {}
        chosen = replace(self, run=partial(self.run, **modes))
        if given.only is not None:
            outcome = chosen.run(given.only)
            print(outcome)
            return int(self.problem(outcome) is not None)
        begin = time.perf_counter()
        seeds = range(given.seed, given.seed + given.runs)
        outcomes = chosen.outcomes(seeds, given.jobs, given.results)
        seconds = time.perf_counter() - begin
        rows = reported(given, self.table_of(outcomes), *self.columns)
        bad = [asdict(each) for each in outcomes if self.problem(each) is not None]  # type: ignore[call-overload]
        said = f"{len(outcomes) - len(bad)} of {len(outcomes)} runs as they have to be"
        found = {"good": not bad, "seconds": seconds, "rows": rows, "bad": bad}
        return ended(given, not bad, found, f"{said}, {seconds:.0f} s")

    def outcomes(
        self, seeds: Sequence[int], jobs: int = 1, results: Path | None = None
    ) -> list[Outcome]:
        """Outcomes of all seeds, in order; those that a file of results has are not run again."""
        known = dict(self._read(results))
        rest = [seed for seed in seeds if seed not in known]
        said = time.monotonic()
        with ProcessPoolExecutor(jobs) as pool:
            for number, outcome in enumerate(pool.map(self.run, rest, chunksize=self.chunk), 1):
                known[rest[number - 1]] = outcome
                self._keep(results, outcome)
                if (problem := self.problem(outcome)) is not None:
                    print(f"--only {rest[number - 1]}: {problem}", file=sys.stderr, flush=True)
                if time.monotonic() - said >= SECONDS_BETWEEN:
                    said = time.monotonic()
                    print(f"{number} of {len(rest)} runs", file=sys.stderr, flush=True)
        return [known[seed] for seed in seeds]

    def _read(self, results: Path | None) -> Iterator[tuple[int, Outcome]]:
        if results is None or not results.exists():
            return
        for line in results.read_text().splitlines():
            fields = json.loads(line)
            values = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
            yield fields["seed"], self.outcome(**values)

    def _keep(self, results: Path | None, outcome: Outcome) -> None:
        if results is not None:
            with results.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")  # type: ignore[call-overload]


@dataclass(frozen=True)
class Exactness:
    """What became of a run that has to be exact: `text` says what went wrong."""

    seed: int
    spec: str
    exact: bool
    text: str = ""
    cycles: int = 0
    cpu_seconds: float = 0.0

    @property
    def problem(self) -> str | None:
        return None if self.exact else f"{self.spec}: {self.text}"


Run = TypeVar("Run", bound=Exactness)


def exact_campaign(
    run: Callable[..., Run],
    outcome: type[Run],
    networks: Iterable[str],
    more: Callable[[Sequence[Run]], Row] = lambda group: {},
    *,
    can_forward: bool = False,
) -> Campaign[Run]:
    """A campaign whose runs have to be exact, with a row for each `spec` and one for all.

    `more` is what a row has of some outcomes besides what all such campaigns count.
    """

    def row_of(network: str, group: Sequence[Run]) -> Row:
        stuck = sum(each.text.startswith("stuck") for each in group)
        return {
            "network": network,
            "runs": len(group),
            "exact": sum(each.exact for each in group),
            "wrong": sum(not each.exact for each in group) - stuck,
            "stuck": stuck,
            **more(group),
            "emulated_cycles": sum(each.cycles for each in group),
            "cpu_seconds": round(sum(each.cpu_seconds for each in group), 1),
        }

    table_of = partial(by_network, networks, row=row_of)
    return Campaign(run, outcome, lambda each: each.problem, table_of, can_forward=can_forward)


def by_network(
    networks: Iterable[str],
    outcomes: Sequence[Any],
    row: Callable[[str, list[Any]], Row],
) -> list[Row]:
    """A row for each network, by `spec` of the outcomes, and one for all."""
    return [
        row(name, [o for o in outcomes if name in (o.spec, "all")]) for name in (*networks, "all")
    ]
