"""Runs the benches of a folder, one after the other, and gathers what they report."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from multitree.sim.cocotb.case import STALLS_VARIABLE, BenchCase, BenchTop
from multitree.sim.cocotb.coverage import Coverage
from multitree.sim.cocotb.simulators import SIMULATORS, BenchError, TestResult, missing, simulate

__all__ = ["COVERAGE_FILE", "MOST_INTERFACES", "RunOptions", "chosen_simulator", "run_benches"]

COVERAGE_FILE = "coverage.json"
"""Where tests save their coverage, in the folder in which they run."""
MOST_INTERFACES = {"icarus": 16, "verilator": 64}
"""Of one design, by simulator."""
_RESULTS_FILE = "results.xml"


@dataclass(frozen=True)
class RunOptions:
    """Options of a run of benches.

    Parameters
    ----------
    simulator : str
        One of `SIMULATORS`.
    seed : int
        Of everything that is drawn.
    only : str, optional
        Regular expression that matches in the full names of the tests to run, such as
        ``bench_network.test_name``.
    stalls : str, optional
        In place of the folder's.
    faults : bool
        Also run the tests that inject faults.
    waves : Path, optional
        File of all signals' changes, as FST; with several designs each name has the design's name
        in it.
    """

    simulator: str
    seed: int = 1
    only: str | None = None
    stalls: str | None = None
    faults: bool = False
    waves: Path | None = None


@dataclass(frozen=True)
class BenchRuns:
    """Results of a folder's benches; `junit` is a file with all of them as JUnit XML."""

    results: tuple[TestResult, ...]
    coverage: Coverage
    junit: Path
    waves: tuple[Path, ...]


def chosen_simulator(name: str | None) -> str:
    """Simulator of that name, or the first one on this machine; ValueError says what it lacks."""
    if name is not None and name not in SIMULATORS:
        raise ValueError(f"Simulator must be {' or '.join(SIMULATORS)}, not {name!r}")
    lacks = {each: missing(each) for each in ([name] if name else SIMULATORS)}
    found = next((each for each, lack in lacks.items() if not lack), None)
    if found is None:
        raise ValueError(
            "Simulator must be there: " + "; ".join(f"{k}: {v}" for k, v in lacks.items())
        )
    return found


def run_benches(
    folder: Path, options: RunOptions, *, say: Callable[[str], None] = lambda text: None
) -> BenchRuns:
    """Build and run what a folder's case lists.

    Parameters
    ----------
    folder : Path
        With a case, as `multitree verilog --bench` writes it. Builds, logs and results go to
        ``build/<simulator>`` in it.
    options : RunOptions
    say : callable
        Called with what is being done.

    Returns
    -------
    BenchRuns

    Raises
    ------
    OSError, ValueError
        As `BenchCase.load`, if no test matches, or a design has more interfaces than the simulator
        takes.
    BenchError
        As `simulate`.
    """
    # Read with what will hold in the tests, so that what is wrong with it is said here.
    variables = {} if options.stalls is None else {STALLS_VARIABLE: options.stalls}
    chosen = _chosen(BenchCase.load(folder, variables), folder, options)
    home = folder / "build" / options.simulator
    results: list[TestResult] = []
    waves: list[Path] = []
    coverage: Coverage | None = None
    for top, modules in chosen:
        where = home / top.top
        where.mkdir(parents=True, exist_ok=True)
        counts = where / COVERAGE_FILE
        # Counts of an earlier run would be taken for this one's where no test saves any.
        counts.unlink(missing_ok=True)
        results += simulate(
            options.simulator,
            sources=[folder / source for source in top.sources],
            top=top.top,
            modules=modules,
            folder=where,
            seed=options.seed,
            only=options.only,
            waves=options.waves is not None,
            blocks=top.blocks,
            python_path=folder.resolve(),
            variables=variables,
            say=say,
        )
        if coverage is not None and counts.is_file():
            coverage.merge(counts)
        elif counts.is_file():
            coverage = Coverage.load(counts)
        if options.waves is not None:
            waves.append(_kept(where, top, options.waves, several=len(chosen) > 1))
    junit = home / _RESULTS_FILE
    _join([home / top.top / _RESULTS_FILE for top, _ in chosen], junit)
    return BenchRuns(tuple(results), coverage or Coverage([]), junit, tuple(waves))


def _chosen(case: BenchCase, folder: Path, options: RunOptions) -> list[tuple[BenchTop, list[str]]]:
    """Designs of a case, with those of their modules that have a test to run."""
    listed = [(t, t.modules + (t.fault_modules if options.faults else ())) for t in case.tops]
    matching = [(top, _matching(folder, modules, options.only)) for top, modules in listed]
    chosen = [(top, modules) for top, modules in matching if modules]
    if not chosen:
        raise ValueError(
            f"Only must match the name of a test, not {options.only!r}; what it is parametrized by "
            "is matched behind a slash, as in 'collectives.*/dtype=int32'"
        )
    most = MOST_INTERFACES[options.simulator]
    for top, _ in chosen:
        if top.num_interfaces > most:
            raise ValueError(
                f"Interfaces must be at most {most} for {options.simulator}, not "
                f"{top.num_interfaces}; --only bench_interface runs one between driven links"
            )
    return chosen


def _matching(folder: Path, modules: Iterable[str], only: str | None) -> list[str]:
    """Modules with a test to run, by the names in their texts."""
    try:
        pattern = re.compile(only or "")
    except re.error as error:
        raise ValueError(f"Only must be a regular expression, not {only!r}: {error}") from error
    names = {
        module: re.findall(r"^async def (\w+)\(dut", (folder / f"{module}.py").read_text(), re.M)
        for module in modules
    }
    # What parametrized tests add to their names begins with a slash, and is not known here.
    stem = re.compile((only or "").split("/")[0]) if "/" in (only or "") else pattern
    return [
        module
        for module, tests in names.items()
        if any(stem.search(f"{module}.{test}") for test in tests)
    ]


def _kept(where: Path, top: BenchTop, path: Path, *, several: bool) -> Path:
    """Move a design's waves to their file."""
    # Verilator calls the file dump.fst, Icarus calls it by the top module.
    found = [*where.rglob("dump.fst"), *where.rglob(f"{top.top}.fst")]
    if not found:
        raise BenchError(f"{top.top}: no waves were written")
    target = path.with_stem(f"{path.stem}_{top.top}") if several else path
    return found[0].replace(target)


def _join(parts: list[Path], path: Path) -> None:
    """Join files of JUnit XML."""
    # Each simulation writes a file; readers of JUnit XML take one.
    root = ElementTree.Element("testsuites")
    for part in parts:
        root.extend(ElementTree.parse(part).getroot().iter("testsuite"))
    ElementTree.ElementTree(root).write(path, encoding="unicode", xml_declaration=True)
