"""Topologies that are a group: every rank sees the same network around it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from multitree.topology.arrays import Int32Array, int32s, positions_in_group
from multitree.topology.cycles import cycles_of
from multitree.topology.errors import ScheduleError
from multitree.topology.topology import Topology

__all__ = ["Translations", "translations_of"]

IntArray = npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Translations:
    """A product of cyclic groups that moves ranks, and every link with them.

    Elements of the group are numbered in mixed radix, the last cycle fastest. A direction is what
    a link adds to the element of the rank that it leaves: each rank has one link per direction.

    Parameters
    ----------
    sizes : tuple of int
        Of the cycles.
    element : numpy.ndarray, int32 (num_ranks,)
        Of each rank: where it lies as seen from the rank of element 0.
    links : numpy.ndarray, int32 (num_ranks, num_directions)
        The link by which each element's rank sends in each direction.
    moves : numpy.ndarray, int32 (num_directions,)
        The element that each direction adds; steps backwards come first, opposite moves as far
        from the middle as each other.
    """

    sizes: tuple[int, ...]
    element: Int32Array
    links: Int32Array
    moves: Int32Array

    @property
    def num_directions(self) -> int:
        """Links that leave each rank."""
        return len(self.moves)

    @cached_property
    def rank(self) -> Int32Array:
        """The rank of each element, int32 (num_ranks,)."""
        return int32s("Ranks", np.argsort(self.element))

    def plus(self, elements: IntArray, moves: IntArray) -> Int32Array:
        """Sums of elements, of the shape that both broadcast to.

        Examples
        --------
        >>> from multitree.topology.families import torus
        >>> translations_of(torus(4, 4)).plus(np.array([5, 15]), np.array([5])).tolist()
        [10, 0]
        """
        return self._added(elements, moves, 1)

    def minus(self, elements: IntArray, moves: IntArray) -> Int32Array:
        """Differences of elements, of the shape that both broadcast to."""
        return self._added(elements, moves, -1)

    def _added(self, elements: IntArray, moves: IntArray, sign: int) -> Int32Array:
        result, weight = np.zeros(np.broadcast_shapes(elements.shape, moves.shape), np.int32), 1
        for size in self.sizes[::-1]:
            places = elements // weight % size + sign * (moves // weight % size)
            result += weight * (places % size).astype(np.int32)
            weight *= size
        return result


def translations_of(topology: Topology) -> Translations:
    """The translations of a ring, torus, hypercube or fully connected network, or of its like.

    Parameters
    ----------
    topology : Topology
        Of any family or none: what is none is looked at, see `cycles.cycles_of`.

    Returns
    -------
    Translations

    Raises
    ------
    ScheduleError
        If the topology has switches, is no such network, or its links differ in number, speed
        or latency from rank to rank.

    Notes
    -----
    O(num_links x cycles), and for a topology of no family O(num_links x degree) beside.

    Examples
    --------
    >>> from multitree.topology.families import hypercube
    >>> translations_of(hypercube(4)).sizes
    (2, 2, 2, 2)
    """
    found = None if topology.num_switches else _numbered(topology)
    if found is None:
        raise ScheduleError(
            "symmetric must have a ring, torus, hypercube or fully connected network, "
            f"not {topology.name!r}"
        )
    return _with_directions(topology, *found)


def _numbered(topology: Topology) -> tuple[tuple[int, ...], Int32Array] | None:
    """Sizes of cycles and each rank's element, as the family numbers ranks or as found."""
    numbers = int32s("Elements", np.arange(topology.num_ranks))
    if topology.family in ("ring", "torus", "fully_connected"):
        return topology.dims, numbers
    if topology.family == "hypercube":
        return (2,) * (topology.num_ranks - 1).bit_length(), numbers
    return cycles_of(topology)


def _with_directions(
    topology: Topology, sizes: tuple[int, ...], element: Int32Array
) -> Translations:
    """Sort the links by what they add, and check that all ranks have them alike."""
    nothing = int32s("None", np.zeros(0, np.int32))
    group = Translations(sizes, element, nothing.reshape(0, 0), nothing)
    src, dst = element[topology.links].T
    move = group.minus(dst, src)
    again = positions_in_group(src.astype(np.int64) * topology.num_ranks + dst)
    kind = move.astype(np.int64) * topology.num_links + again
    kinds, direction = np.unique(kind, return_inverse=True)
    links = np.full((topology.num_ranks, len(kinds)), -1, np.int32)
    links[src, direction] = np.arange(topology.num_links)
    alike = bool((links >= 0).all())
    for figure in (topology.bandwidth_gbytes_per_s, topology.latency_ns):
        alike = alike and bool((figure[links] == figure[links[0]]).all())
    if not alike:
        raise ScheduleError(
            f"symmetric must have links of equal number, speed and latency at every rank, "
            f"not those of {topology.name!r}"
        )
    moves = element[topology.links[links[0], 1]]
    ascending = np.argsort(_signed(sizes, moves), kind="stable")
    columns = int32s("Links", links[:, ascending]), int32s("Moves", moves[ascending])
    return Translations(sizes, element, *columns)


def _signed(sizes: tuple[int, ...], moves: Int32Array) -> Int32Array:
    """Moves as sums of steps forwards or backwards along each cycle, whichever is shorter."""
    result, weight = np.zeros(len(moves), np.int32), 1
    for size in sizes[::-1]:
        place = moves // weight % size
        result += weight * np.where(2 * place > size, place - size, place)
        weight *= size
    return result
