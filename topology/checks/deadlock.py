"""Messages on routes of several links, and whether they could wait in a circle."""

from array import array

import numpy as np

from multitree.topology.arrays import BoolArray, Int64Array
from multitree.topology.errors import ScheduleError
from multitree.topology.schedules.columns import MAX_CLASSES
from multitree.topology.schedules.schedule import Schedule

MOST_LISTED = 8


def check_deadlock(schedule: Schedule, row_of: Int64Array, is_first: BoolArray) -> None:
    """No circle of messages can wait on links, each for a (link, class) that the next one holds.

    Parameters
    ----------
    schedule : Schedule
        Its routes are paths.
    row_of : numpy.ndarray, int64 (num_hops,)
        The row of each hop.
    is_first : numpy.ndarray, bool (num_hops,)
        Whether a hop is the first of its route.

    Raises
    ------
    ScheduleError
        Naming a circle, each (link, class) with a row whose route has it; at most `MOST_LISTED`.

    Notes
    -----
    O(num_hops log num_hops), a fraction of a kilobyte for each hop.
    """
    if is_first.all():
        return
    resource = schedule.route_links.astype(np.int64) * MAX_CLASSES + schedule.route_classes
    onward = np.flatnonzero(~is_first)
    names, place = np.unique(resource, return_inverse=True)
    held, wanted = place[onward - 1], place[onward]
    edges, first = np.unique(held * len(names) + wanted, return_index=True)
    circle = circle_among(*np.divmod(edges, len(names)), len(names))
    if not circle:
        return
    rows = row_of[onward[first[circle]]].tolist()
    goals = names[edges[circle] % len(names)].tolist()
    waits = [
        f"row {row} for link {goal // MAX_CLASSES} class {goal % MAX_CLASSES}"
        for row, goal in zip(rows[:MOST_LISTED], goals, strict=False)
    ]
    if len(rows) > MOST_LISTED:
        waits.append(f"and {len(rows) - MOST_LISTED} more")
    raise ScheduleError(
        f"{schedule.describe(rows[0])}: route must not close a circle of waiting messages, "
        f"not wait as here, each for a link that the next one holds: {', '.join(waits)}"
    )


def circle_among(source: Int64Array, target: Int64Array, num_nodes: int) -> list[int]:
    """The edges of a circle in a directed graph, one behind the other.

    Nodes that nothing leads to are taken away until there are none. If nodes are left, something
    that is left leads to each; so who goes backwards comes round.

    Parameters
    ----------
    source, target : numpy.ndarray, int64 (num_edges,)
        Ascending by source.
    num_nodes : int

    Returns
    -------
    list of int
        Empty where there is no circle.

    Notes
    -----
    O(num_nodes + num_edges).

    Examples
    --------
    >>> circle_among(np.array([0, 1, 2]), np.array([1, 2, 1]), 3)
    [2, 1]
    """
    starts = np.searchsorted(source, np.arange(num_nodes + 1)).tolist()
    targets = array("q", target.tobytes())
    waiting = np.bincount(target, minlength=num_nodes).tolist()
    free = [node for node, number in enumerate(waiting) if not number]
    while free:
        node = free.pop()
        for after in targets[starts[node] : starts[node + 1]]:
            waiting[after] -= 1
            if not waiting[after]:
                free.append(after)
    left = np.array(waiting) > 0
    kept = np.flatnonzero(left[source] & left[target])
    if not kept.size:
        return []
    before = np.zeros(num_nodes, np.int64)
    before[target[kept]] = kept
    node = int(target[kept[0]])
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(int(before[node]))
        node = int(source[path[-1]])
    return path[seen[node] :][::-1]
