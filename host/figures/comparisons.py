"""Series of a figure compared: how many times less one takes than another."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from multitree.host.figures.figure import Figure, Value

__all__ = ["Comparison", "compared", "rtl_agreement"]


@dataclass(frozen=True)
class Comparison:
    """One series over another: the other's cycles over its own, at the same x."""

    panel: str
    series: str
    over: str
    num_points: int  # at which both have cycles
    first: float  # at the least x
    last: float  # at the greatest x
    least: float  # of all, as the greatest and the geometric mean
    most: float
    mean: float


def compared(figure: Figure, values: Sequence[Value]) -> list[Comparison]:
    """The figure's subjects over every other series, in each panel where both have values."""
    cycles: dict[tuple[str, str], dict[object, int]] = {}
    for each in values:
        found = cycles.setdefault((each.panel, each.series), {})
        if each.cycles:
            found[each.x] = each.cycles
    return [
        _over(panel, subject, series, of_other, cycles[panel, subject])
        for subject in figure.subjects
        for (panel, series), of_other in cycles.items()
        if series != subject and set(of_other) & set(cycles.get((panel, subject), {}))
    ]


def _over(
    panel: str, series: str, over: str, theirs: dict[object, int], ours: dict[object, int]
) -> Comparison:
    ratios = [theirs[x] / ours[x] for x in theirs if x in ours]
    mean = geometric_mean(ratios)
    return Comparison(
        panel, series, over, len(ratios), ratios[0], ratios[-1], min(ratios), max(ratios), mean
    )


def rtl_agreement(values: Sequence[Value]) -> tuple[int, float | None]:
    """How many values have cycles of the RTL, and the largest share that they are off."""
    off = [
        abs(each.cycles / each.rtl_cycles - 1)
        for each in values
        if each.cycles is not None and each.rtl_cycles
    ]
    return len(off), max(off, default=None)
