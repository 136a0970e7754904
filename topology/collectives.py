"""The collectives, the ops they are made of, and where their trees' roots must be."""

from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np

from multitree.topology.arrays import Int32Array, positions_in_group
from multitree.topology.errors import ScheduleError


class Op(IntEnum):
    """What a row does: add into the parent, replace at the child, or (tables only) wait."""

    REDUCE = 0
    GATHER = 1
    NOP = 2


OPS_OF = {
    "all_reduce": (Op.REDUCE, Op.GATHER),
    "reduce_scatter": (Op.REDUCE,),
    "all_gather": (Op.GATHER,),
    "broadcast": (Op.GATHER,),
    "reduce": (Op.REDUCE,),
}
COLLECTIVES = tuple(OPS_OF)
ROOTED = ("broadcast", "reduce")


def check_collective(collective: str, root: int | None, num_ranks: int) -> None:
    """Check a collective's name and that it has a root exactly where it needs one.

    Parameters
    ----------
    collective : str
    root : int or None
    num_ranks : int

    Raises
    ------
    ScheduleError
        If the name is unknown, or the root missing, no rank or uncalled for.
    """
    if collective not in COLLECTIVES:
        known = ", ".join(COLLECTIVES)
        raise ScheduleError(f"Collective must be one of {known}, not {collective!r}")
    if collective in ROOTED:
        chosen_roots([root], num_ranks)
    elif root is not None:
        raise ScheduleError(f"Root of {collective} must be None, not {root!r}")


def chosen_roots(roots: Sequence[int | None] | None, num_ranks: int) -> list[int]:
    """The roots of a schedule's flows as a list; every rank once where none are given.

    Parameters
    ----------
    roots : sequence of int, or None
    num_ranks : int

    Returns
    -------
    list of int

    Raises
    ------
    ScheduleError
        If the sequence is empty or a root is no rank.

    Examples
    --------
    >>> chosen_roots(None, 3), chosen_roots([2, 2], 3)
    ([0, 1, 2], [2, 2])
    """
    if roots is None:
        return list(range(num_ranks))
    chosen = []
    for root in roots:
        is_whole = isinstance(root, int | np.integer) and not isinstance(root, bool)
        if root is None or not is_whole or not 0 <= root < num_ranks:
            raise ScheduleError(f"Root must be a rank 0..{num_ranks - 1}, not {root!r}")
        chosen.append(int(root))
    if not chosen:
        raise ScheduleError("Roots must be at least one rank, not none")
    return chosen


def check_roots(
    collective: str,
    roots: Int32Array,
    root: int | None,
    num_ranks: int,
    *,
    describe: Callable[[int], str] = "Flow {}".format,
) -> None:
    """Check that trees have their roots where a collective needs them.

    Parameters
    ----------
    collective : str
    roots : numpy.ndarray, int32 (num_flows,)
    root : int or None
        The one that broadcast and reduce must have; None for any one.
    num_ranks : int
    describe : callable
        Names a flow, by its number, in a message.

    Raises
    ------
    ScheduleError
        If reduce_scatter or all_gather lack one flow rooted at each rank, or the trees of
        broadcast or reduce do not share their root.
    """
    if collective == "all_reduce":
        return
    if collective in ROOTED:
        wanted = int(roots[0]) if root is None else root
        wrong = np.flatnonzero(roots != wanted)
        where = f"every flow rooted at rank {wanted}"
    elif len(roots) != num_ranks:
        raise ScheduleError(
            f"{collective} must have one flow rooted at each rank, "
            f"not {len(roots)} flows for {num_ranks} ranks"
        )
    else:
        wrong = np.flatnonzero(positions_in_group(roots.astype(np.int64)) > 0)
        where = "one flow rooted at each rank"
    if wrong.size:
        flow = int(wrong[0])
        raise ScheduleError(
            f"{describe(flow)}: {collective} must have {where}, not flow {flow} at {roots[flow]}"
        )
