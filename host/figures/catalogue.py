"""All figures by their names."""

from multitree.host.figures.figure import Figure, FigureError
from multitree.host.figures.scaling import STRONG_SCALING, WEAK_SCALING
from multitree.host.figures.sensitivity import SENSITIVITY
from multitree.host.figures.size_figures import BANDWIDTH, BASELINES, PACKETS
from multitree.host.figures.table_size import TABLE_SIZE
from multitree.host.figures.training import TRAINING, TRAINING_OVERLAP

__all__ = ["FIGURES", "figure_named"]

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        BANDWIDTH,
        PACKETS,
        WEAK_SCALING,
        STRONG_SCALING,
        TRAINING,
        TRAINING_OVERLAP,
        TABLE_SIZE,
        BASELINES,
        SENSITIVITY,
    )
}
"""In the order in which they are listed: those of the paper, then those that it leaves out."""


def figure_named(name: str) -> Figure:
    """The figure of a name; FigureError if there is none."""
    if name not in FIGURES:
        raise FigureError(f"Figure must be one of {', '.join(FIGURES)}, not {name!r}")
    return FIGURES[name]
