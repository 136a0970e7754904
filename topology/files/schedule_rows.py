"""Rows of a schedule as files have them: one per transfer, with its route."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

from multitree.topology.arrays import int32s, int64s
from multitree.topology.collectives import Op
from multitree.topology.file_text import ContentError
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.columns import MAX_CLASSES
from multitree.topology.schedules.schedule import Schedule

FIELDS = ("step", "op", "flow", "src", "dst", "order", "links", "classes")
OPS = (Op.REDUCE.name, Op.GATHER.name)
MAX_STEPS = 1 << 20
MAX_OFFSET = 2**63 - 1
MAX_LABEL = 100
"""Characters of an algorithm's name."""

WAVES = ("num_waves", "period")
"""What files of schedules with several waves hold in addition to the rest."""

Row = tuple[int, str, int, int, int, int, list[int], list[int]]


class Heading(NamedTuple):
    """What a schedule has in addition to its topology and its rows."""

    algorithm: str
    collective: str
    root: int | None
    flow_offsets: list[int]
    num_waves: int = 1
    period: int = 1


def check_route(place: str, links: list[int], classes: list[int]) -> None:
    """Raise a ContentError unless a row has a class for each link, and a link at least."""
    if not len(links) == len(classes) > 0:
        counts = f"{len(links)} and {len(classes)}"
        raise ContentError(f"{place} must have as many links as classes, at least 1, not {counts}")


def most_of(topology: Topology, num_flows: int) -> dict[str, int]:
    """The largest number that each field of a row may have.

    Parameters
    ----------
    topology : Topology
    num_flows : int

    Returns
    -------
    dict of str to int
        By field; op has none.
    """
    last_rank = topology.num_ranks - 1
    return {
        "step": MAX_STEPS - 1,
        "flow": num_flows - 1,
        **dict.fromkeys(("src", "dst", "order"), last_rank),
        "links": topology.num_links - 1,
        "classes": MAX_CLASSES - 1,
    }


def check_counts(num_rows: int, num_offsets: int, num_ranks: int) -> int:
    """The number of flows, if rows are as many as their trees have edges at least.

    So what is made for each flow and rank is no larger than the file.

    Parameters
    ----------
    num_rows, num_offsets, num_ranks : int

    Returns
    -------
    int

    Raises
    ------
    ContentError
        If there is no flow, or there are fewer rows.
    """
    if num_offsets < 2:
        raise ContentError(f"flow_offsets must be at least two numbers, not {num_offsets}")
    num_flows = num_offsets - 1
    least = num_flows * (num_ranks - 1)
    if num_rows < least:
        trees = f"{num_flows} flows on {num_ranks} ranks"
        raise ContentError(f"rows must be at least {least} for {trees}, not {num_rows}")
    return num_flows


def schedule_of_rows(
    topology: Topology, heading: Heading, rows: Sequence[Sequence[Any]]
) -> Schedule:
    """Put a schedule together.

    Parameters
    ----------
    topology : Topology
    heading : Heading
    rows : sequence of sequence
        One row at least, each with its `FIELDS` within their limits.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If they do not belong together.
    """
    step, op, flow, src, dst, order, links, classes = zip(*rows, strict=True)
    lengths = accumulate(map(len, links), initial=0)
    return Schedule(
        topology,
        heading.algorithm,
        heading.collective,
        heading.root,
        int64s("Flow offsets", heading.flow_offsets),
        int32s("Steps", step),
        int32s("Ops", [Op[name] for name in op]),
        int32s("Flows", flow),
        int32s("Sources", src),
        int32s("Destinations", dst),
        int32s("Orders", order),
        int64s("Route offsets", list(lengths)),
        int32s("Route links", list(chain.from_iterable(links))),
        int32s("Route classes", list(chain.from_iterable(classes))),
        heading.num_waves,
        heading.period,
    )


def waves_of(schedule: Schedule, shown: Callable[[int], Any]) -> dict[str, Any]:
    """What a file tells of several waves, each number as `shown`; nothing where there is one."""
    several = schedule.num_waves > 1
    return {key: shown(getattr(schedule, key)) for key in WAVES if several}


def rows_of(schedule: Schedule) -> Iterator[Row]:
    """The rows of a schedule, each with its `FIELDS`.

    Parameters
    ----------
    schedule : Schedule

    Yields
    ------
    tuple

    Examples
    --------
    >>> from multitree.topology.algorithms.build import build
    >>> from multitree.topology.families.direct import ring
    >>> next(rows_of(build(ring(3), "multitree")))
    (0, 'REDUCE', 0, 1, 0, 0, [2], [0])
    """
    numbers = (schedule.flow, schedule.src, schedule.dst, schedule.order)
    columns = zip(*(column.tolist() for column in numbers), strict=True)
    ends = schedule.route_offsets.tolist()
    links, classes = schedule.route_links.tolist(), schedule.route_classes.tolist()
    heads = zip(schedule.step.tolist(), schedule.op.tolist(), strict=True)
    for row, ((step, op), column) in enumerate(zip(heads, columns, strict=True)):
        hops = slice(ends[row], ends[row + 1])
        yield (step, OPS[op], *column, links[hops], classes[hops])
