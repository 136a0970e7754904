"""Every algorithm's all-reduce side by side."""

from dataclasses import asdict
from typing import Any

from multitree.host.simulator import Simulator
from multitree.host.work import WorkReport
from multitree.topology.builders import ALGORITHMS, build
from multitree.topology.errors import ScheduleError
from multitree.topology.schedule import Schedule

__all__ = ["COLUMNS", "compare_all", "shown_cells"]

COLUMNS = [
    "algorithm",
    "steps",
    "cycles",
    "µs",
    "GB/s",
    "x bound",
    "link use",
    "exact",
]

FIGURES = (
    "cycles",
    "time_us",
    "bandwidth_gbytes_per_s",
    "ratio_to_bound",
    "link_utilization",
    "exact",
    "wall_seconds",
    "cpu_seconds",
)


def compare_all(simulator: Simulator, size_bytes: int) -> list[dict[str, Any]]:
    """Run every algorithm's all-reduce on one simulator.

    Parameters
    ----------
    simulator : Simulator
        Topology, engine and data.
    size_bytes : int
        Bytes of one rank's buffer.

    Returns
    -------
    list of dict
        Per algorithm its name, schedule_hash, steps_reduce_scatter, steps_all_gather, `FIGURES`
        of the `WorkReport`, and error: why it has no schedule on this topology. What is unknown
        is None.
    """
    results = []
    for algorithm in ALGORITHMS:
        try:
            schedule = build(simulator.topology, algorithm)
        except ScheduleError as error:
            results.append(_result(algorithm, None, None, str(error)))
            continue
        results.append(_result(algorithm, schedule, simulator.run(schedule, size_bytes), None))
    return results


def shown_cells(result: dict[str, Any]) -> list[str]:
    """Cells of one algorithm for people, in the order of `COLUMNS`."""
    if result["error"] is not None:
        return [result["algorithm"], "none", *["-"] * (len(COLUMNS) - 2)]
    exact = {True: "yes", False: "NO", None: "-"}[result["exact"]]
    return [
        result["algorithm"],
        f"{result['steps_reduce_scatter']} + {result['steps_all_gather']}",
        str(result["cycles"]),
        f"{result['time_us']:.3f}",
        f"{result['bandwidth_gbytes_per_s']:.2f}",
        f"{result['ratio_to_bound']:.3f}",
        f"{100 * result['link_utilization']:.1f} %",
        exact,
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
