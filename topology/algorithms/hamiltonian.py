"""Hamiltonian cycles, along which ring all-reduces run."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology

SEARCH_ATTEMPTS = 16
SEARCH_MOVES = 20_000


def hamiltonian_cycle(topology: Topology) -> list[int]:
    """A cycle over links that visits every rank once, starting at rank 0.

    Closed forms for rings, tori, meshes with an even side, hypercubes and fully connected ranks,
    O(num_ranks). For other graphs, searches that backtrack, fewest continuations first, and give up
    after 16 times 20 000 moves; the ScheduleError says whether there is none or the search gave up.
    Two ranks that are linked in both directions count as a cycle. A graph whose ranks fall into two
    colours of unequal number, such as a mesh with odd sides, has none, since a cycle alternates
    between the colours.
    """
    family, dims = topology.family, topology.dims
    cycle: list[int] | None = None
    is_pair = topology.num_ranks == 2 and not topology.num_switches
    if family in ("ring", "fully_connected") or is_pair:
        cycle = list(range(topology.num_ranks))
    elif family == "hypercube":
        # The reflected Gray code: neighbours differ in one bit, and so do the last and the first.
        cycle = [index ^ (index >> 1) for index in range(topology.num_ranks)]
    elif family in ("torus", "mesh"):
        places = _grid_cycle(dims, wraps=family == "torus")
        if places is not None:
            cycle = np.ravel_multi_index(tuple(np.array(places).T), dims).tolist()
    if cycle is None:
        _refuse_if_impossible(topology)
        cycle = _search(topology)
    start = cycle.index(0)
    return cycle[start:] + cycle[:start]


Place = tuple[int, ...]


def _grid_cycle(dims: tuple[int, ...], *, wraps: bool) -> list[Place] | None:
    even = [axis for axis, size in enumerate(dims) if size % 2 == 0]
    if even and len(dims) > 1:
        return _even_grid_cycle(dims, even[0])
    if not wraps:
        return None
    cycle: list[Place] = [(place,) for place in range(dims[0])]
    for size in dims[1:]:
        cycle = _odd_torus_cycle(cycle, size)
    return cycle


def _snake(dims: Sequence[int]) -> list[Place]:
    path: list[Place] = [()]
    for size in dims:
        path = [
            (*place, step)
            for index, place in enumerate(path)
            for step in (range(size) if index % 2 == 0 else range(size - 1, -1, -1))
        ]
    return path


def _even_grid_cycle(dims: tuple[int, ...], axis: int) -> list[Place]:
    # Down the even side in a snake that leaves out column 0, then back up column 0.
    columns = _snake(dims[:axis] + dims[axis + 1 :])
    cells = [(0, 0)]
    for row in range(dims[axis]):
        across = range(1, len(columns)) if row % 2 == 0 else range(len(columns) - 1, 0, -1)
        cells += [(row, column) for column in across]
    cells += [(row, 0) for row in range(dims[axis] - 1, 0, -1)]
    return [(*columns[column][:axis], row, *columns[column][axis:]) for row, column in cells]


def _odd_torus_cycle(cycle: list[Place], size: int) -> list[Place]:
    # Each row runs once around the shorter cycle and the next starts where it ended: forwards
    # that is one place back, backwards one place on. So many rows run backwards that the last
    # one ends where the first began.
    long, short = max(len(cycle), size), min(len(cycle), size)
    # That is 2 x num_backwards - long = 0 modulo short, which is odd, so that 2 has an inverse.
    num_backwards = long * pow(2, -1, short) % short
    column, cells = 0, []
    for row in range(long):
        turn = -1 if row < num_backwards else 1
        cells += [(row, (column + turn * step) % short) for step in range(short)]
        column = cells[-1][1]
    if len(cycle) < size:
        cells = [(column, row) for row, column in cells]
    return [(*cycle[first], second) for first, second in cells]


def _refuse_if_impossible(topology: Topology) -> None:
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(topology.num_ranks))
    inside = topology.links[(topology.links < topology.num_ranks).all(axis=1)]
    graph.add_edges_from(inside.tolist())
    lonely = [rank for rank, degree in graph.degree if degree < 2]
    if lonely:
        raise ScheduleError(
            f"{topology.name!r} has no Hamiltonian cycle: rank {lonely[0]} is linked with fewer "
            "than two ranks"
        )
    # Two colours of unequal number exclude a cycle at once, where a search may not end.
    colours = nx.bipartite.color(graph) if nx.is_bipartite(graph) else {}
    ones = sum(colours.values())
    if colours and 2 * ones != topology.num_ranks:
        raise ScheduleError(
            f"{topology.name!r} has no Hamiltonian cycle: a cycle alternates between the two "
            f"colours of its ranks, and there are {ones} of one and "
            f"{topology.num_ranks - ones} of the other"
        )


def _search(topology: Topology) -> list[int]:
    num_ranks = topology.num_ranks
    onward: list[set[int]] = [set() for _ in range(num_ranks)]
    for src, dst in topology.links.tolist():
        if src < num_ranks and dst < num_ranks:
            onward[src].add(dst)
    for attempt in range(SEARCH_ATTEMPTS):
        # Attempts break ties differently, since a bad early choice is what makes a search long: by
        # rank, then by hashes of it (Knuth's). Factors are odd, so preferences modulo 2^32 differ.
        preference = [rank * (1 + 2654435760 * attempt) % 2**32 for rank in range(num_ranks)]
        path = _backtrack(onward, preference)
        if path is not None and not path:
            raise ScheduleError(f"{topology.name!r} has no Hamiltonian cycle: none was found")
        if path:
            return path
    raise ScheduleError(
        f"{topology.name!r} has no Hamiltonian cycle that {SEARCH_ATTEMPTS} searches of "
        f"{SEARCH_MOVES} moves find"
    )


def _backtrack(onward: list[set[int]], preference: list[int]) -> list[int] | None:
    """A cycle, an empty list if there is none, or None if the moves ran out."""
    num_ranks = len(onward)
    both_directions = all(
        rank in onward[other] for rank in range(num_ranks) for other in onward[rank]
    )
    visited = [False] * num_ranks
    path, visited[0] = [0], True

    def moves() -> list[int]:
        return _moves(onward[path[-1]], onward, visited, preference, both_directions)

    untried = [moves()]
    for _ in range(SEARCH_MOVES):
        if len(path) == num_ranks and 0 in onward[path[-1]]:
            return path
        while not untried[-1]:
            visited[path.pop()] = False
            untried.pop()
            if not path:
                return []
        path.append(untried[-1].pop())
        visited[path[-1]] = True
        untried.append(moves())
    return None


def _moves(
    candidates: set[int],
    onward: list[set[int]],
    visited: list[bool],
    preference: list[int],
    both_directions: bool,
) -> list[int]:
    """Where a path can go on from its end, the best last."""
    freedom = {
        other: sum(not visited[beyond] or beyond == 0 for beyond in onward[other])
        for other in candidates
        if not visited[other]
    }
    if both_directions:
        # A rank that the path leaves out now must later be entered and left over two other links.
        forced = [other for other, number in freedom.items() if number < 2]
        if forced:
            return forced if len(forced) == 1 else []
    # Warnsdorff's rule: the neighbour with the fewest continuations is tried first.
    return sorted(freedom, key=lambda other: (freedom[other], preference[other]), reverse=True)
