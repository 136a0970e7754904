"""The command cocotb: benches over the Verilog of a network, on a simulator."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multitree.host.cli.options import (
    ClockOptions,
    NetworkOptions,
    ScheduleOptions,
    build_schedule,
    with_options,
)
from multitree.host.cli.output import (
    Working,
    check_folder,
    check_writable,
    print_json,
    print_pairs,
    print_table,
)
from multitree.host.cli.process import FAILED
from multitree.host.cli.verilog import BENCH_SIZE, Design
from multitree.host.design.names import PREFIX
from multitree.host.parameters import parameter
from multitree.host.sizes import cost_model_for, listed, parse_size
from multitree.sim.cocotb.case import CASE_FILE

if TYPE_CHECKING:
    from multitree.sim.cocotb.runs import BenchRuns, RunOptions

__all__ = ["cocotb"]

_CLOCK_NS = 2
_NEEDED = ("cocotb", "cocotbext.axi")


@with_options
def cocotb(
    *,
    spec: str,
    network: NetworkOptions,
    clock: ClockOptions,
    out: Annotated[Path, typer.Option(help="Folder to write to.", metavar="DIR")] = Path(
        "build/cocotb"
    ),
    algorithm: str | None,
    size: str = BENCH_SIZE,
    memory: str,
    dtypes: str,
    rank: Annotated[int, typer.Option(help="Whose interface is driven alone.", metavar="RANK")] = 0,
    crossings: bool,
    sim: Annotated[
        str | None,
        typer.Option(help="icarus or verilator; by default what is there.", metavar="NAME"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", metavar="NUMBER")] = 1,
    only: Annotated[
        str | None,
        typer.Option(help="Tests whose names this regular expression matches.", metavar="NAME"),
    ] = None,
    stalls: Annotated[
        str | None, typer.Option(help="none, light or heavy.", metavar="LEVEL")
    ] = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="Also do things wrong that have to be noticed.")
    ] = False,
    waves: Annotated[
        Path | None, typer.Option(help="Every signal's changes, as .fst.", metavar="FILE")
    ] = None,
    force: bool,
    json: bool,
) -> int:
    """Run cocotb benches over the Verilog of a network, and of one interface in it.

    Every rank's memory is compared with the definition of the schedule, bit for bit, and every
    flit of the interface that is driven alone. The benches stay in the folder, to be changed and
    run again: `multitree cocotb DIR/multitree_cocotb`.
    """
    if waves is not None:
        check_writable(waves)
    options = _options(sim=sim, seed=seed, only=only, stalls=stalls, faults=faults, waves=waves)
    folder = Path(spec)
    if not folder.is_dir():
        check_folder(out)
        size_bytes, model = parse_size(size), clock.model()
        built, _ = build_schedule(
            spec, ScheduleOptions(algorithm), network, cost_model_for(model, size_bytes)
        )
        design = Design(built, size_bytes, model, memory, PREFIX, dtypes=tuple(listed(dtypes)))
        plan = design.benches(size, rank=rank, crossings=crossings)
        design.write(out, plan, force=force)
        folder = out / design.names.cocotb
    elif (algorithm, size, memory, dtypes, rank, crossings) != (
        *(None, BENCH_SIZE, "sram", parameter("dtypes").default),
        *(0, False),
    ):
        raise ValueError(f"Options of a design must come with its topology, not with {spec!r}")
    _check_benches(folder)
    runs = _run(folder, options)
    failed = sum(not result.passed for result in runs.results)
    if json:
        print_json(_figures(runs, options, folder) | {"warnings": network.warnings})
    else:
        _show(runs, options, failed)
    return FAILED if failed else 0


def _check_benches(folder: Path) -> None:
    """Raise a ValueError where a folder has no benches; it may hold the one that has."""
    if not (folder / CASE_FILE).exists():
        below = next((f"; {path.parent} is one" for path in folder.glob(f"*/{CASE_FILE}")), "")
        raise ValueError(
            f"Folder must have benches, as `multitree verilog --bench` writes them, not {folder}"
            f"{below}"
        )


def _options(**values: Any) -> "RunOptions":
    """How to run, once it is sure that cocotb is there."""
    absent = [name for name in _NEEDED if not _is_installed(name)]
    if absent:
        raise ValueError(
            f"{absent[0]} must be installed to run benches: pip install 'multitree[cocotb]'"
        )
    from multitree.sim.cocotb.runs import RunOptions, chosen_simulator

    return RunOptions(simulator=chosen_simulator(values.pop("sim")), **values)


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _run(folder: Path, options: "RunOptions") -> "BenchRuns":
    from multitree.sim.cocotb.runs import run_benches

    with Working(f"Benches on {options.simulator}") as work:
        return run_benches(folder, options, say=work.update)


def _figures(runs: "BenchRuns", options: "RunOptions", folder: Path) -> dict[str, Any]:
    """What was run, for programs."""
    return {
        "simulator": options.simulator,
        "seed": options.seed,
        "folder": str(folder),
        "tests": [
            {
                "name": result.name,
                "passed": result.passed,
                "cycles": _cycles(result.sim_time_ns),
                "wall_seconds": result.wall_seconds,
                "message": result.message,
            }
            for result in runs.results
        ],
        "coverage": [
            {
                "name": group.name,
                "num_bins": len(group.hits),
                "num_hit": len(group.hits) - len(group.missing),
                "missing": [", ".join(map(str, values)) for values in group.missing],
            }
            for group in runs.coverage.groups.values()
        ],
        "junit": str(runs.junit),
        "waves": [str(path) for path in runs.waves],
    }


def _cycles(time_ns: float) -> int:
    return round(time_ns / _CLOCK_NS)


def _show(runs: "BenchRuns", options: "RunOptions", failed: int) -> None:
    """Print it for people: a row per test, then what failed, and why."""
    rows = [
        (result.name, str(_cycles(result.sim_time_ns)), "passed" if result.passed else "FAILED")
        for result in runs.results
    ]
    title = f"Benches on {options.simulator}, seed {options.seed}"
    print_table(title, ("test", "cycles", "result"), rows)
    for result in runs.results:
        if not result.passed:
            typer.echo(f"{result.name}\n  {result.message}\n")
    pairs = [
        ("tests", f"{len(rows) - failed} passed, {failed} failed"),
        ("bins hit", runs.coverage.summary or "none"),
        ("JUnit XML", str(runs.junit)),
        *(("waves", str(path)) for path in runs.waves),
    ]
    print_pairs("Results", pairs)
