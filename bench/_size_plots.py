"""Plots of time over the bound against size, a line for each algorithm."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

from multitree.host.sizes import format_size
from multitree.topology.algorithms.registry import ALGORITHMS

SOURCES = ("analytic", "rtl")
MOST = 4.0


def plot(rows: list[dict[str, Any]], folder: Path) -> Path:
    """Draw one topology's rows, all up to `MOST` times the bound; the file is an SVG.

    Lines are the analytic engine's, dots are RTL; equal rows give equal files.
    """
    matplotlib.rcParams["svg.hashsalt"] = "multitree"
    spec = rows[0]["topology"]
    figure, axes = pyplot.subplots(figsize=(7.5, 4.5))
    names = [name for name in ALGORITHMS if any(name in row["algorithms"] for row in rows)]
    for name in names:
        label: str | None = name
        for source in SOURCES:
            points = [
                (row["size_bytes"], row["algorithms"][name][source] / row["bound_cycles"])
                for row in rows
                if source in row["algorithms"].get(name, {})
            ]
            if min((ratio for _, ratio in points), default=MOST) < MOST:
                style = "o" if source == "rtl" else "--" if name == "multitree" else "-"
                colour = ALGORITHMS[name].colour
                axes.plot(*zip(*points, strict=True), style, color=colour, label=label)
                label = None
    axes.plot(
        [row["size_bytes"] for row in rows],
        [(row["rtl_cycles"] or row["analytic_cycles"]) / row["bound_cycles"] for row in rows],
        linestyle="none",
        marker="s",
        markersize=11,
        markerfacecolor="none",
        markeredgecolor="black",
        label="auto",
    )
    axes.set(
        xscale="log",
        ylim=(0.95, MOST),
        xlabel="bytes per rank",
        ylabel="cycles over the bound",
        title=f"All-reduce on {spec}: lines analytic, dots RTL",
    )
    ticks = [row["size_bytes"] for row in rows], [format_size(row["size_bytes"]) for row in rows]
    axes.set_xticks(*ticks, rotation=40, ha="right")
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{spec.replace(':', '_')}.svg"
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    return path
