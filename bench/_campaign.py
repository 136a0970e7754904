"""Seeded campaigns: runs shared out to processes and kept as they end."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

Outcome = TypeVar("Outcome")
"""What became of a run: a dataclass with its `seed`."""

SECONDS_BETWEEN = 10.0


@dataclass(frozen=True)
class Campaign(Generic[Outcome]):
    """What a campaign runs, and how it is judged and shown.

    Parameters
    ----------
    run : callable
        The outcome of a seed; called in other processes.
    outcome : type
        Its dataclass.
    problem : callable
        What is wrong with an outcome, in one line, or None.
    table_of : callable
        Rows for all outcomes, each a dict.
    show : callable
        Print the rows for people.
    chunk : int
        Seeds that one process takes at a time.
    can_forward : bool
        `run` takes `forward_flits`, too, which is an option of the command line then.
    """

    run: Callable[..., Outcome]
    outcome: type[Outcome]
    problem: Callable[[Outcome], str | None]
    table_of: Callable[[Sequence[Outcome]], list[dict[str, Any]]]
    show: Callable[[list[dict[str, Any]]], None]
    chunk: int = 1
    can_forward: bool = False

    def main(self, description: str | None, *, runs: int) -> int:
        """Run what the command line says; exit status 1 where an outcome has a problem."""
        arguments = self._parse(description, runs)
        if self.can_forward:
            forwards = partial(self.run, forward_flits=arguments.forward_flits)
            return replace(self, run=forwards)._main(arguments)
        return self._main(arguments)

    def _main(self, arguments: argparse.Namespace) -> int:
        if arguments.only is not None:
            outcome = self.run(arguments.only)
            print(outcome)
            return int(self.problem(outcome) is not None)
        begin = time.perf_counter()
        seeds = range(arguments.seed, arguments.seed + arguments.runs)
        outcomes = self.outcomes(seeds, arguments.jobs, arguments.results)
        seconds = time.perf_counter() - begin
        rows, bad = self.table_of(outcomes), [o for o in outcomes if self.problem(o) is not None]
        if arguments.json:
            found = {"good": not bad, "seconds": seconds, "rows": rows}
            print(json.dumps(found | {"bad": [asdict(o) for o in bad]}, indent=2))  # type: ignore[call-overload]
        else:
            self.show(rows)
            right = len(outcomes) - len(bad)
            print(f"{right} of {len(outcomes)} runs as they have to be, {seconds:.0f} s")
        return int(bool(bad))

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

    def _parse(self, description: str | None, runs: int) -> argparse.Namespace:
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--runs", type=int, default=runs)
        parser.add_argument("--seed", type=int, default=1, help="the first; runs count up from it")
        parser.add_argument("--jobs", type=int, default=2)
        parser.add_argument("--only", type=int, metavar="SEED", help="one run, and all about it")
        parser.add_argument("--results", type=Path, help="file that keeps outcomes, to go on later")
        parser.add_argument("--json", action="store_true")
        if self.can_forward:
            parser.add_argument("--forward-flits", type=int, default=0, help="on private links")
        return parser.parse_args()

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
        """What is wrong, in one line, or None."""
        return None if self.exact else f"{self.spec}: {self.text}"


Run = TypeVar("Run", bound=Exactness)


def exact_campaign(
    run: Callable[..., Run],
    outcome: type[Run],
    networks: Iterable[str],
    line: str,
    more: Callable[[Sequence[Run]], dict[str, Any]] = lambda group: {},
    *,
    can_forward: bool = False,
) -> Campaign[Run]:
    """A campaign whose runs have to be exact, with a row for each network and one for all.

    Parameters
    ----------
    run, outcome, can_forward
        As of a `Campaign`.
    networks : iterable of str
        What `spec` of an outcome may be.
    line : str
        Format of a row for people.
    more : callable
        What a row has of some outcomes besides what all such campaigns count.
    """

    def row_of(network: str, group: Sequence[Run]) -> dict[str, Any]:
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

    def table_of(outcomes: Sequence[Run]) -> list[dict[str, Any]]:
        return by_network(networks, outcomes, row_of)

    def show(rows: list[dict[str, Any]]) -> None:
        print(line.format(*(name.replace("_", " ").replace("emulated ", "") for name in rows[0])))
        for row in rows:
            print(line.format(*(_cell(name, value) for name, value in row.items())))

    return Campaign(
        run, outcome, lambda each: each.problem, table_of, show, can_forward=can_forward
    )


def _cell(name: str, value: Any) -> Any:
    """A value of a row for people."""
    if name.endswith("_share"):
        return "-" if value is None else f"{100 * value:.1f} %"
    return f"{value:,}" if name == "emulated_cycles" else value


def by_network(
    networks: Iterable[str],
    outcomes: Sequence[Any],
    row: Callable[[str, list[Any]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """A row for each network, by `spec` of the outcomes, and one for all."""
    return [
        row(name, [o for o in outcomes if name in (o.spec, "all")]) for name in (*networks, "all")
    ]
