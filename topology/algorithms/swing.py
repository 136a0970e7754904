"""Swing: exchanges with partners that alternate sides, on tori."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.algorithms.halving_doubling import exchange_rows, with_gather
from multitree.topology.arrays import Int64Array
from multitree.topology.collectives import chosen_roots
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule


def build_swing(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the all-reduce of Swing, its variant for large buffers.

    As recursive halving and doubling, but in exchange s of a ring a rank's partner is
    rho(s) = (1 - (-2)^(s+1)) / 3 places away, 1, -1, 3, -5 and so on, even ranks in one direction
    and odd ones in the other: a third less far than 2^s. On a torus of D dimensions exchanges go
    around the dimensions. There are 2D such all-reduces at once, one that begins in each
    dimension and a mirrored one of each, so that all links of a rank are busy.

    Parameters
    ----------
    topology : Topology
        A ring or a torus whose sides are powers of two.
    roots : sequence of int, optional
        2D flows for each entry, with equal parts of the buffer; every rank once when left out.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If the topology is another one, or a root is no rank.

    Notes
    -----
    O(D x flows x ranks); deterministic. N-1 steps per phase, each of a chunk of 1/(2DN) of the
    buffer; a rank sends 4D(N-1) messages. Partners further than one hop contend on the links
    between them, and where a side is 2 the mirrored flows contend with the others; `verify`
    says how much. Sides that are no powers of two, for which [1] repeats some of the work,
    are refused.

    References
    ----------
    .. [1] D. De Sensi, T. Bonato, D. Saam, T. Hoefler, "Swing: Short-cutting Rings for Higher
       Bandwidth Allreduce", NSDI 2024.

    Examples
    --------
    >>> from multitree.topology.families.direct import torus
    >>> schedule = build_swing(torus(4, 4))
    >>> schedule.num_flows, schedule.steps_all_gather
    (64, 15)
    """
    dims = topology.dims
    if topology.family not in ("ring", "torus") or any(side & (side - 1) for side in dims):
        raise ScheduleError(
            f"swing must have a ring or torus whose sides are powers of two, not {topology.name!r}"
        )
    chosen = chosen_roots(roots, topology.num_ranks)
    kinds = [(first, way) for way in (1, -1) for first in range(len(dims))]
    rows = []
    for kind, (first, way) in enumerate(kinds):
        partners = swing_partners(dims, first_dimension=first, way=way)
        both = with_gather(exchange_rows(partners, np.array(chosen))).copy()
        both[:, 2] = len(kinds) * both[:, 2] + kind
        rows.append(both)
    return Schedule.from_rows(
        topology,
        algorithm="swing",
        collective="all_reduce",
        flow_offsets=np.arange(len(kinds) * len(chosen) + 1),
        rows=np.concatenate(rows),
    )


def swing_partners(dims: Sequence[int], *, first_dimension: int, way: int) -> Int64Array:
    """Partners of all ranks of a torus in one of the all-reduces that Swing does at once.

    Parameters
    ----------
    dims : sequence of int
        Sides, powers of two.
    first_dimension : int
        The dimension of the first exchange; the others follow in turn, those that are done
        left out.
    way : int
        1, or -1 for the mirrored one.

    Returns
    -------
    numpy.ndarray, int64 (log2(ranks), ranks)

    Examples
    --------
    >>> swing_partners([8], first_dimension=0, way=1).tolist()
    [[1, 0, 3, 2, 5, 4, 7, 6], [7, 2, 1, 4, 3, 6, 5, 0], [3, 6, 5, 0, 7, 2, 1, 4]]
    """
    places = np.indices(tuple(dims)).reshape(len(dims), -1)
    left = [side.bit_length() - 1 for side in dims]
    done = [0] * len(dims)
    axis, partners = first_dimension, []
    while any(left):
        if left[axis]:
            # 1 - (-2)^k is a multiple of 3, so the division is exact for either sign.
            distance = way * (1 - (-2) ** (done[axis] + 1)) // 3
            moved = places.copy()
            moved[axis] += np.where(places[axis] % 2 == 0, distance, -distance)
            moved[axis] %= dims[axis]
            partners.append(np.ravel_multi_index(tuple(moved), tuple(dims)))
            left[axis] -= 1
            done[axis] += 1
        axis = (axis + 1) % len(dims)
    return np.array(partners, np.int64)
