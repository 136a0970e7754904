"""Several algorithms' all-reduces side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from multitree.host.report import WorkReport
from multitree.host.simulator import Simulator
from multitree.host.sizes import format_size
from multitree.topology.algorithms.build import COMPARED, build
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "COLUMNS",
    "REPORT_COLUMNS",
    "check_some_ran",
    "compare_all",
    "report_cells",
    "shown_cells",
]

COLUMNS = [
    "algorithm",
    "steps",
    "cycles",
    "µs",
    "GB/s",
    "offload µs",
    "effective GB/s",
    "x bound",
    "link use",
    "exact",
]

REPORT_COLUMNS = ["size", *COLUMNS[:1], *COLUMNS[2:]]

_EXACT = {True: "yes", False: "NO", None: "-"}

FIGURES = (
    "cycles",
    "time_us",
    "bandwidth_gbytes_per_s",
    "loading_cycles",
    "offload_us",
    "offload_bandwidth_gbytes_per_s",
    "ratio_to_bound",
    "link_utilization",
    "exact",
    "wall_seconds",
    "cpu_seconds",
)


def compare_all(
    simulator: Simulator, size_bytes: int, algorithms: Sequence[str] = COMPARED
) -> list[dict[str, Any]]:
    """Run several algorithms' all-reduces on one simulator.

    Parameters
    ----------
    simulator : Simulator
        Topology, engine and data.
    size_bytes : int
        Bytes of one rank's buffer.
    algorithms : sequence of str

    Returns
    -------
    list of dict
        Per algorithm its name, schedule_hash, steps_reduce_scatter, steps_all_gather, `FIGURES`
        of the `WorkReport`, and error: why it has no schedule on this topology, or why the
        engine cannot run it. What is unknown is None.
    """
    results = []
    for algorithm in algorithms:
        schedule = report = problem = None
        try:
            cost_model = simulator.cost_model(size_bytes)
            schedule = build(simulator.topology, algorithm, cost_model=cost_model)
            report = simulator.run(schedule, size_bytes)
        except ScheduleError as error:
            problem = str(error)
        results.append(_result(algorithm, schedule, report, problem))
    return results


def check_some_ran(topology: Topology, results: Sequence[dict[str, Any]]) -> None:
    """Raise where no algorithm ran, since then nothing was compared.

    Raises
    ------
    ScheduleError
        Saying why of each.
    """
    if all(result["error"] is not None for result in results):
        reasons = {result["algorithm"]: result["error"] for result in results}
        reasons_text = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise ScheduleError(f"{topology.name}: at least one algorithm must run, but {reasons_text}")


def report_cells(report: WorkReport) -> list[str]:
    """Cells of one run for people, in the order of `REPORT_COLUMNS`."""
    return [format_size(report.size_bytes), report.algorithm, *_figure_cells(vars(report))]


def shown_cells(result: dict[str, Any]) -> list[str]:
    """Cells of one algorithm for people, in the order of `COLUMNS`."""
    steps = f"{result['steps_reduce_scatter']} + {result['steps_all_gather']}"
    if result["error"] is not None:
        has_none = result["schedule_hash"] is None
        return [result["algorithm"], "none" if has_none else steps, *["-"] * (len(COLUMNS) - 2)]
    return [result["algorithm"], steps, *_figure_cells(result)]


def _figure_cells(figures: Mapping[str, Any]) -> list[str]:
    """Cells from the cycles on; what may be unknown is a dash."""

    def known(name: str, digits: int) -> str:
        return "-" if figures[name] is None else f"{figures[name]:.{digits}f}"

    return [
        str(figures["cycles"]),
        f"{figures['time_us']:.3f}",
        f"{figures['bandwidth_gbytes_per_s']:.2f}",
        known("offload_us", 3),
        known("offload_bandwidth_gbytes_per_s", 2),
        known("ratio_to_bound", 3),
        f"{100 * (figures['link_utilization'] or 0):.1f} %",
        _EXACT[figures["exact"]],
    ]


def _result(
    algorithm: str, schedule: Schedule | None, report: WorkReport | None, error: str | None
) -> dict[str, Any]:
    """One algorithm's entry; without a report all figures are None."""
    figures = {} if report is None else asdict(report)
    return {
        "algorithm": algorithm,
        "schedule_hash": None if schedule is None else schedule.hash,
        "steps_reduce_scatter": None if schedule is None else schedule.steps_reduce_scatter,
        "steps_all_gather": None if schedule is None else schedule.steps_all_gather,
        **{name: figures.get(name) for name in FIGURES},
        "error": error,
    }
