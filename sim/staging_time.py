"""How long it takes to add what was staged, in the cycles that others leave."""

__all__ = ["Spans", "drained_at"]

Spans = list[tuple[float, float]]
"""From and to cycles."""


def drained_at(began: float, size: int, reads: Spans, uses: Spans, room: int) -> float:
    """When so many flits are read and moved on, while others read and use what they go to.

    A flit is read in a cycle in which nobody else reads, at most `room` ahead of those that are
    moved, and moved in one in which nothing else uses the reducer.

    Parameters
    ----------
    began : float
        Cycle from which on.
    size : int
        Flits.
    reads, uses : list of (float, float)
        When others read, and when they use the reducer.
    room : int
        Flits that may be read and not moved.

    Returns
    -------
    float
        The cycle behind that in which the last one is moved.

    Notes
    -----
    O(n log n) for n spans.

    Examples
    --------
    >>> drained_at(10.0, 100, [], [], 64)
    110.0
    >>> drained_at(10.0, 100, [(0.0, 30.0)], [(50.0, 70.0)], 64)
    150.0
    """
    edges: list[tuple[float, int, int]] = []
    for kind, spans in enumerate((reads, uses)):
        for begin, end in spans:
            if end > began:
                edges += [(max(begin, began), kind, 1), (end, kind, -1)]
    edges.sort()
    busy, read, moved, now = [0, 0], 0.0, 0.0, began
    for cycle, kind, change in [*edges, (float("inf"), 0, 0)]:
        span = cycle - now
        if not busy[1]:
            ahead = read - moved if busy[0] else size - moved
            if moved + min(span, ahead) >= size:
                return now + size - moved
            moved += min(span, ahead)
        if not busy[0]:
            read = min(size, read + span, moved + room)
        read = max(read, moved)
        busy[kind] += change
        now = cycle
    raise AssertionError("behind the last span nobody else reads")
