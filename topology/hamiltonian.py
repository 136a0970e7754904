"""Hamiltonian cycles, along which ring all-reduces run."""

from collections.abc import Sequence

import networkx as nx
import numpy as np

from multitree.topology.errors import ScheduleError
from multitree.topology.topology import Topology

MAX_SEARCH_MOVES = 200_000


def hamiltonian_cycle(topology: Topology) -> list[int]:
    """A cycle over links that visits every rank once, starting at rank 0.

    Closed forms for rings, tori, meshes with an even side, hypercubes and fully connected
    ranks; for other graphs a search that backtracks, fewest ways onward first, and gives up
    after 200 000 moves.

    Parameters
    ----------
    topology : Topology

    Returns
    -------
    list of int
        The ranks in the order of the cycle; the last is linked with the first. Two ranks
        that are linked both ways count as a cycle.

    Raises
    ------
    ScheduleError
        If there is none or the search gave up; the message names the topology and says which.

    Notes
    -----
    Deterministic. Closed forms take O(num_ranks). A graph whose ranks fall into two colours
    of unequal number, such as a mesh with odd sides, has no such cycle, since it alternates
    between the colours.

    Examples
    --------
    >>> from multitree.topology.families import mesh, torus
    >>> hamiltonian_cycle(mesh(2, 3))
    [0, 1, 2, 5, 4, 3]
    >>> hamiltonian_cycle(torus(3, 3))
    [0, 1, 2, 5, 3, 4, 7, 8, 6]
    """
    family, dims = topology.family, topology.dims
    cycle: list[int] | None = None
    if family in ("ring", "fully_connected") or topology.num_ranks == 2:
        cycle = list(range(topology.num_ranks))
    elif family == "hypercube":
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
    visited = [False] * num_ranks

    def ways(rank: int) -> list[int]:
        new = [other for other in onward[rank] if not visited[other]]
        freedom = {other: sum(not visited[beyond] for beyond in onward[other]) for other in new}
        return sorted(new, key=lambda other: (freedom[other], other), reverse=True)

    path, visited[0] = [0], True
    untried = [ways(0)]
    for _ in range(MAX_SEARCH_MOVES):
        if len(path) == num_ranks and 0 in onward[path[-1]]:
            return path
        while path and not untried[-1]:
            visited[path.pop()] = False
            untried.pop()
            if not path:
                raise ScheduleError(f"{topology.name!r} has no Hamiltonian cycle: none was found")
        path.append(untried[-1].pop())
        visited[path[-1]] = True
        untried.append(ways(path[-1]))
    raise ScheduleError(
        f"{topology.name!r} has no Hamiltonian cycle that {MAX_SEARCH_MOVES} moves find"
    )
