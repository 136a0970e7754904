"""Cells of tables of reports, for people."""

from collections.abc import Mapping
from typing import Any

from multitree.host.report import WorkReport
from multitree.host.sizes import format_size

__all__ = ["COLUMNS", "REPORT_COLUMNS", "report_cells", "shown_cells"]

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
