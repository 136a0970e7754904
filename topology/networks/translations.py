"""Networks that are a group: every rank sees the same network around it."""

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from multitree.topology.arrays import Int32Array, int32s, positions_in_group
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology

__all__ = [
    "Translations",
    "cycles_of",
    "translations_of",
]

Neighbours = list[set[int]]


def cycles_of(topology: Topology) -> tuple[tuple[int, ...], Int32Array] | None:
    """Sizes of cycles whose product a network is, and each rank's place in it; None if it is none.

    Two neighbours of a rank close a square with it exactly if they lie along different cycles, so
    that one rank's links tell the cycles apart (Imrich, Peterin, "Recognizing Cartesian products in
    linear time", Discrete Mathematics 307, 2007). A cycle of four is two of two; O(num_links x
    degree).
    """
    if topology.num_switches:
        return None
    neighbours: Neighbours = [set() for _ in range(topology.num_ranks)]
    for src, dst in topology.links.tolist():
        neighbours[src].add(dst)
    degree = len(neighbours[0])
    if any(len(others) != degree for others in neighbours):
        return None
    if degree == topology.num_ranks - 1:
        return (topology.num_ranks,), int32s("Elements", np.arange(topology.num_ranks))
    axes = _axes(neighbours)
    moves = None if axes is None else _extended(neighbours, axes)
    if axes is None or moves is None:
        return None
    # Only a necessary condition so far: `_with_directions` checks where all links lead.
    return _placed(moves, axes)


def _axes(neighbours: Neighbours) -> list[list[int]] | None:
    """Rank 0's neighbours along each cycle, one or two; None if they are not so."""
    axes: list[list[int]] = []
    for rank in sorted(neighbours[0]):
        own = []
        for axis in axes:
            # Both neighbours along a cycle are adjacent (length 3) or have no second rank in common
            # (5 and more); along two cycles they have exactly one, the corner of a square.
            squares = len((neighbours[rank] & neighbours[axis[0]]) - {0})
            if axis[0] in neighbours[rank] or squares == 0:
                own.append(axis)
            elif squares != 1:
                return None
        if len(own) > 1 or (own and len(own[0]) == 2):
            return None
        if own:
            own[0].append(rank)
        else:
            axes.append([rank])
    return axes


def _extended(neighbours: Neighbours, axes: list[list[int]]) -> list[list[int]] | None:
    """The neighbour of each rank in each direction, the directions of axis after axis."""
    axis_of = [axis for axis, ends in enumerate(axes) for _ in ends]
    back = [place for axis in axes for place in _opposite(axes.index(axis), axes)]
    moves: list[list[int]] = [[] for _ in neighbours]
    moves[0] = [rank for axis in axes for rank in axis]
    queue = deque([0])
    while queue:
        rank = queue.popleft()
        for direction, other in enumerate(moves[rank]):
            if moves[other]:
                continue
            own = _moved(neighbours, moves[rank], direction, axis_of, (rank, back[direction]))
            if own is None:
                return None
            moves[other] = own
            queue.append(other)
    return moves


def _opposite(axis: int, axes: list[list[int]]) -> list[int]:
    """Opposite directions of those of an axis; the one of a cycle of two is its own opposite."""
    first = sum(len(ends) for ends in axes[:axis])
    return [first] if len(axes[axis]) == 1 else [first + 1, first]


def _moved(
    neighbours: Neighbours,
    moves: list[int],
    direction: int,
    axis_of: list[int],
    came: tuple[int, int],
) -> list[int] | None:
    """Directions at the neighbour in one direction of a rank: squares tell, and what is left."""
    rank, back = came
    other = moves[direction]
    own = [-1] * len(moves)
    own[back] = rank
    for across, corner in enumerate(moves):
        if axis_of[across] != axis_of[direction]:
            # The fourth corner of the square over rank, other and corner leads `across` from other.
            shared = (neighbours[other] & neighbours[corner]) - {rank}
            if len(shared) != 1:
                return None
            (own[across],) = shared
    left = neighbours[other] - set(own)
    # No square shows the direction straight on along the cycle: it takes the one neighbour left.
    if own.count(-1) != len(left) or len(left) > 1:
        return None
    if left:
        own[own.index(-1)] = left.pop()
    return own


def _placed(
    moves: list[list[int]], axes: list[list[int]]
) -> tuple[tuple[int, ...], Int32Array] | None:
    """Sizes of the cycles and each rank's element, by walking along each cycle in turn."""
    element = [-1] * len(moves)
    element[0] = 0
    reached, sizes, first = [0], [], 0
    for axis in axes:
        line, rank = [0], moves[0][first]
        # On graphs that are no product the walk may miss its start, so its length is limited.
        while rank != 0 and len(line) <= len(moves):
            line.append(rank)
            rank = moves[rank][first]
        sizes.append(len(line))
        # Also limits the work below, since a wrong product
        # may have more places than there are ranks.
        if prod(sizes) > len(moves):
            return None
        whole = []
        for start in reached:
            rank, at = start, element[start] * len(line)
            for place in range(len(line)):
                element[rank] = at + place
                whole.append(rank)
                rank = moves[rank][first]
        reached, first = whole, first + len(axis)
    if sorted(element) != list(range(len(moves))):
        return None
    return tuple(sizes), int32s("Elements", element)


IntArray = npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Translations:
    """A product of cyclic groups that moves ranks, and every link with them.

    Elements of the group are numbered in mixed radix, the last cycle fastest. A direction is what a
    link adds to the element of the rank that it leaves: each rank has one link per direction.
    """

    sizes: tuple[int, ...]  # of the cycles
    element: Int32Array  # of each rank: where it lies as seen from the rank of element 0
    links: Int32Array  # (num_ranks, num_directions): by which each element sends in each direction
    # What each direction adds: steps backwards first, opposite moves as far from the middle.
    moves: Int32Array

    @property
    def num_directions(self) -> int:
        """Links that leave each rank."""
        return len(self.moves)

    @cached_property
    def rank(self) -> Int32Array:
        """The rank of each element, int32 (num_ranks,)."""
        return int32s("Ranks", np.argsort(self.element))

    def directions_of(self, links: Int32Array) -> Int32Array:
        """The direction of each link, int32 (n,); -1 where the group does not move it."""
        directions = np.full(
            max(self.links.max(initial=-1), links.max(initial=-1)) + 1, -1, np.int32
        )
        directions[self.links] = np.arange(self.num_directions)
        return directions[links]

    def problem_on(self, topology: Topology) -> str | None:
        """Why the group does not move the ranks of a topology and its own links; None if it does.

        Links that the group does not have may be more, and all may differ in speed and latency.
        """
        num_ranks, everyone = topology.num_ranks, np.arange(topology.num_ranks)
        if prod(self.sizes) != num_ranks or not np.array_equal(np.sort(self.element), everyone):
            return f"there must be one element of {self.sizes} for each of {num_ranks} ranks"
        if self.links.shape != (num_ranks, self.num_directions):
            return f"each rank must have {self.num_directions} links, not {self.links.shape}"
        ids = np.sort(self.links, axis=None)
        if (np.diff(ids) == 0).any() or ids[0] < 0 or ids[-1] >= topology.num_links:
            return f"links must be different ones of {topology.num_links}"
        reached = self.rank[self.plus(everyone[:, None], self.moves[None, :])]
        ends = np.stack(np.broadcast_arrays(self.rank[:, None], reached), axis=-1)
        wrong = np.argwhere((topology.links[self.links] != ends).any(axis=-1))
        if not wrong.size:
            return None
        link, (src, dst) = int(self.links[tuple(wrong[0])]), ends[tuple(wrong[0])].tolist()
        return f"link {link} must lead from rank {src} to {dst}"

    def are_alike_on(self, topology: Topology) -> bool:
        """Whether the links of each direction are equal in speed and latency."""
        return all(
            bool((numbers[self.links] == numbers[self.links[:1]]).all())
            for numbers in (topology.bandwidth_gbytes_per_s, topology.latency_ns)
        )

    def plus(self, elements: IntArray, moves: IntArray) -> Int32Array:
        """Sums of elements, of the shape that both broadcast to."""
        return self._added(elements, moves, 1)

    def minus(self, elements: IntArray, moves: IntArray) -> Int32Array:
        """Differences of elements, of the shape that both broadcast to."""
        return self._added(elements, moves, -1)

    def _added(self, elements: IntArray, moves: IntArray, sign: int) -> Int32Array:
        result, weight = np.zeros(np.broadcast_shapes(elements.shape, moves.shape), np.int32), 1
        for size in self.sizes[::-1]:
            # Digits of mixed radix do not carry: each cycle is added modulo its own size.
            places = elements // weight % size + sign * (moves // weight % size)
            result += weight * (places % size).astype(np.int32)
            weight *= size
        return result


def translations_of(topology: Topology) -> Translations:
    """The translations of a ring, torus, hypercube or fully connected network, or of its like.

    O(num_links x cycles), and for a topology of no family that of `cycles_of`. A ScheduleError says
    that it is no such network, or that its links differ in number, speed or latency from rank to
    rank.
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
    # Parallel links are directions of their own. Keys need 64 bits: 65 536 ranks squared exceed 32.
    again = positions_in_group(src.astype(np.int64) * topology.num_ranks + dst)
    kind = move.astype(np.int64) * topology.num_links + again
    kinds, direction = np.unique(kind, return_inverse=True)
    links = np.full((topology.num_ranks, len(kinds)), -1, np.int32)
    links[src, direction] = np.arange(topology.num_links)
    moves = element[topology.links[links[0], 1]]
    ascending = np.argsort(_signed(sizes, moves), kind="stable")
    columns = int32s("Links", links[:, ascending]), int32s("Moves", moves[ascending])
    found = Translations(sizes, element, *columns)
    if (links < 0).any() or not found.are_alike_on(topology):
        raise ScheduleError(
            f"symmetric must have links of equal number, speed and latency at every rank, "
            f"not those of {topology.name!r}"
        )
    return found


def _signed(sizes: tuple[int, ...], moves: Int32Array) -> Int32Array:
    """Moves as sums of steps forwards or backwards along each cycle, whichever is shorter."""
    result, weight = np.zeros(len(moves), np.int32), 1
    for size in sizes[::-1]:
        place = moves // weight % size
        result += weight * np.where(2 * place > size, place - size, place)
        weight *= size
    return result
