"""Families of topologies with switches: fat trees, BiGraph and DGX-2."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s, int64s
from multitree.topology.errors import TopologyError
from multitree.topology.families.direct import (
    LOWEST_KEY,
    Nodes,
    check_num_ranks,
    check_size,
    checked_dims,
    named_family,
)
from multitree.topology.networks.nodes import MAX_RANKS
from multitree.topology.networks.topology import Topology

Orders = tuple[Int64Array, Int64Array, Int32Array, Int32Array]
"""Keys up, keys down, classes and groups, as `UpDown` has them."""


@dataclass(frozen=True)
class TreeShape:
    """An extended generalized fat tree: level 0 are ranks, the levels above are switches.

    Below a node of level i are m_i nodes, above a node of level i-1 are w_i. With M_i and W_i
    the products of the first i of them, node number A W_i + B of level i stands above ranks
    A M_i up to (A+1) M_i, as one of W_i such nodes (Öhring et al., "On generalized fat trees",
    IPPS 1995).
    """

    # m_1, m_2, ... and w_1, w_2, ..., one for each level of switches.
    num_below: tuple[int, ...]
    num_above: tuple[int, ...]

    @cached_property
    def ranks_below(self) -> Int64Array:
        """M_i for each level i from 0, int64 (num_levels + 1,)."""
        return int64s("Ranks below", np.cumprod([1, *self.num_below]))

    @cached_property
    def width(self) -> Int64Array:
        """W_i for each level i from 0, int64 (num_levels + 1,)."""
        return int64s("Width", np.cumprod([1, *self.num_above]))

    @cached_property
    def first_node(self) -> Int64Array:
        """The first node of each level, and the one after the last, int64 (num_levels + 2,)."""
        sizes = self.ranks_below[-1] // self.ranks_below * self.width
        return int64s("First nodes", np.r_[0, np.cumsum(sizes)])

    def levels(self) -> Iterator[Int64Array]:
        """The nodes of each level from the ranks up."""
        for first, last in zip(self.first_node[:-1], self.first_node[1:], strict=True):
            yield np.arange(first, last)

    def level_of(self, nodes: Int64Array) -> Int64Array:
        """The level of each node, int64 (n,)."""
        return int64s("Level", np.searchsorted(self.first_node, nodes, side="right") - 1)

    def below(self, nodes: Int64Array) -> Int64Array:
        """The nodes below each of some nodes of one level, int64 (n, m_i)."""
        level = int(self.level_of(nodes[:1])[0])
        if level == 0:
            return np.empty((len(nodes), 0), np.int64)
        subtree = (nodes - self.first_node[level]) // self.width[level]
        num_below = self.num_below[level - 1]
        children = subtree[:, None] * num_below + np.arange(num_below)
        place = (nodes - self.first_node[level]) % self.width[level - 1]
        lower = children * self.width[level - 1] + place[:, None]
        return np.asarray(self.first_node[level - 1] + lower)

    def above(self, nodes: Int64Array) -> Int64Array:
        """The nodes above each of some nodes of one level, int64 (n, w_i+1)."""
        level = int(self.level_of(nodes[:1])[0])
        if level == len(self.num_above):
            return np.empty((len(nodes), 0), np.int64)
        return np.stack(
            [
                self.parent(nodes, np.full(len(nodes), choice))
                for choice in range(self.num_above[level])
            ],
            axis=1,
        )

    def parent(self, nodes: Int64Array, choice: Int64Array) -> Int64Array:
        """The node above each node below the top that its choice of w_i+1 names, int64 (n,)."""
        level = self.level_of(nodes)
        number, width = nodes - self.first_node[level], self.width[level]
        subtree = number // width // np.array([*self.num_below, 1])[level]
        place = choice * width + number % width
        return np.asarray(self.first_node[level + 1] + subtree * self.width[level + 1] + place)

    def onward(self, nodes: Int64Array, ranks: Int64Array) -> Int64Array:
        """The next node on the path to a rank: down where it is below, else up by rank.

        A node with w links up takes link (rank / W_i) mod w, so that the paths to a rank from all
        others are one tree and neighbouring ranks' trees share no link up: D-mod-K (E. Zahavi,
        CCIT report 776, Technion, 2010).
        """
        level = self.level_of(nodes)
        number = nodes - self.first_node[level]
        goes_down = (ranks // self.ranks_below[level]) == number // self.width[level]
        goes_down &= level > 0
        # np.where evaluates both branches for all nodes, so ranks
        # and top nodes get values that are valid and not used.
        lower = np.maximum(level - 1, 0)
        child = ranks // self.ranks_below[lower]
        down = self.first_node[lower] + child * self.width[lower] + number % self.width[lower]
        above = np.array([*self.num_above, 1])[level]
        up = np.minimum(level, len(self.num_above) - 1)
        choice = ranks // self.width[up] % above
        highest = level == len(self.num_above)
        return np.where(goes_down | highest, down, self.parent(np.where(highest, 0, nodes), choice))


def tree_shape(family: str, dims: tuple[int, ...]) -> TreeShape:
    """The shape of a fat tree from its sizes; `family` is "fat_tree" or "kary_tree"."""
    if family == "fat_tree":
        num_leaves, hosts = dims
        return TreeShape((hosts, num_leaves), (1, hosts))
    down_ports, num_levels, oversubscription = dims
    up_links = down_ports // oversubscription
    return TreeShape((down_ports,) * num_levels, (1,) + (up_links,) * (num_levels - 1))


DGX2_BOARDS, DGX2_GPUS, DGX2_PLANES = 2, 8, 6


def fat_tree(num_leaves: int, hosts_per_leaf: int) -> Topology:
    """A fat tree of two levels: as many spine switches as a leaf switch has ranks.

    Rank r is on leaf r // H, its one link. Nodes are ranks, leaves, spines. Links go node by
    node; a leaf's are to its ranks, then to all spines, a spine's to all leaves, ascending.

    Parameters
    ----------
    num_leaves, hosts_per_leaf : int
        L and H: L leaves with H ranks each, H spines.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If a size is out of range.

    Examples
    --------
    >>> fat_tree(4, 4).num_ranks, fat_tree(4, 4).num_switches, fat_tree(4, 4).diameter
    (16, 8, 4)
    >>> fat_tree(4, 4).links[fat_tree(4, 4).ports(17), 1].tolist()
    [4, 5, 6, 7, 20, 21, 22, 23]
    """
    check_size("fat_tree", num_leaves, 2, MAX_RANKS)
    return _tree("fat_tree", checked_dims("fat_tree", (num_leaves, hosts_per_leaf), least=1))


def kary_tree(down_ports: int, num_levels: int, oversubscription: int = 1) -> Topology:
    """A k-ary n-tree: n levels of switches with k links down, and k / o up but at the top.

    Ranks number k^n. A switch on level i, ranks being level 0, stands above k^i of them. Nodes
    are ranks, then switches level by level; links go node by node, down before up, ascending.

    Parameters
    ----------
    down_ports, num_levels : int
        K and N.
    oversubscription : int
        O, a divisor of K: how many times more links lead down than up. With 1 every cut
        between levels is as wide as the one below; with K there is one top switch.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If a size is out of range or no divisor.

    References
    ----------
    F. Petrini, M. Vanneschi, "k-ary n-trees: high performance networks for massively parallel
    architectures", IPPS 1997; the form with fewer links up is an extended generalized fat tree
    of S. R. Öhring, M. Ibel, S. K. Das, M. J. Kumar, "On generalized fat trees", IPPS 1995.

    Examples
    --------
    >>> kary_tree(4, 2).num_switches, kary_tree(4, 2, 2).num_switches, kary_tree(4, 3, 4).num_links
    (8, 6, 168)
    """
    check_size("kary_tree", down_ports, 2, MAX_RANKS)
    check_size("kary_tree", num_levels, 1, MAX_RANKS.bit_length() - 1)
    # The number of levels is checked before, so that the power stays small.
    check_num_ranks("kary_tree", int(down_ports) ** int(num_levels))
    check_size("kary_tree", oversubscription, 1, down_ports)
    if down_ports % oversubscription:
        raise TopologyError(
            f"Oversubscription must be a divisor of {down_ports}, not {oversubscription}"
        )
    return _tree("kary_tree", (int(down_ports), int(num_levels), int(oversubscription)))


def bigraph(hosts_per_switch: int, num_switches: int) -> Topology:
    """BiGraph: two halves of switches, each switch linked with all of the other half.

    Rank r is on switch r // H, its one link; switches below S / 2 are one half. Links go node
    by node; a switch's are to its ranks, then to the other half, ascending.

    Parameters
    ----------
    hosts_per_switch, num_switches : int
        H and S, which is even.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If a size is out of range or S odd.

    References
    ----------
    J. Dong et al., "EFLOPS: Algorithm and System Co-Design for a High Performance Distributed
    Training Platform", HPCA 2020.

    Examples
    --------
    >>> bigraph(4, 8).num_ranks, bigraph(4, 8).links[bigraph(4, 8).ports(33), 1].tolist()
    (32, [4, 5, 6, 7, 36, 37, 38, 39])
    """
    check_size("bigraph", num_switches, 2, MAX_RANKS)
    dims = checked_dims("bigraph", (hosts_per_switch, num_switches), least=1)
    hosts, switches = dims
    if switches % 2:
        raise TopologyError(f"Number of switches must be even, not {switches}")
    num_ranks, switch = hosts * switches, np.arange(switches)
    own = switch[:, None] * hosts + np.arange(hosts)
    other = np.where(switch < switches // 2, switches // 2, 0)[:, None] + np.arange(switches // 2)
    rank = np.arange(num_ranks)
    links = np.concatenate(
        [
            np.stack([rank, num_ranks + rank // hosts], axis=1),
            _rows(num_ranks + switch, np.concatenate([own, num_ranks + other], axis=1)),
        ]
    )
    return named_family(
        "bigraph", dims, int32s("Links", links), num_ranks=num_ranks, num_switches=switches
    )


def dgx2() -> Topology:
    """Sixteen GPUs on two boards of eight, with six NVSwitch planes.

    Rank r is on board r // 8 and has one link to each of its board's six switches, node 16 +
    6 board + plane. A switch has links to its eight ranks, ascending, then eight to its
    counterpart on the other board.

    Returns
    -------
    Topology

    Examples
    --------
    >>> dgx2().num_links, dgx2().degree.tolist()[14:18], dgx2().diameter
    (288, [6, 6, 16, 16], 3)
    """
    num_ranks, num_switches = DGX2_BOARDS * DGX2_GPUS, DGX2_BOARDS * DGX2_PLANES
    rank, switch = np.arange(num_ranks), np.arange(num_switches)
    own = (rank // DGX2_GPUS * DGX2_PLANES)[:, None] + np.arange(DGX2_PLANES)
    board = switch // DGX2_PLANES
    gpus = board[:, None] * DGX2_GPUS + np.arange(DGX2_GPUS)
    other = np.repeat((switch + DGX2_PLANES) % num_switches, DGX2_GPUS).reshape(-1, DGX2_GPUS)
    links = np.concatenate(
        [
            _rows(rank, num_ranks + own),
            _rows(num_ranks + switch, np.concatenate([gpus, num_ranks + other], axis=1)),
        ]
    )
    return named_family(
        "dgx2",
        (DGX2_BOARDS, DGX2_GPUS, DGX2_PLANES),
        int32s("Links", links),
        num_ranks=num_ranks,
        num_switches=num_switches,
        name="dgx2",
    )


def along_bigraph(dims: tuple[int, ...], at: Nodes, src: Nodes, dst: Nodes) -> tuple[Nodes, Nodes]:
    """The next node on a BiGraph, and the class of the link to it: the half of the source."""
    hosts, num_switches = dims
    half, num_ranks = num_switches // 2, hosts * num_switches
    switch, last = at - num_ranks, dst // hosts
    between = np.where(switch < half, half, 0) + dst % half
    onward = np.where((switch < half) == (last < half), between, last)
    following = np.where(switch == last, dst, num_ranks + onward)
    following = np.where(at < num_ranks, num_ranks + at // hosts, following)
    return following, (src // hosts >= half).astype(np.int64)


def along_dgx2(dims: tuple[int, ...], at: Nodes, src: Nodes, dst: Nodes) -> tuple[Nodes, Nodes]:
    """The next node on a DGX-2, in the plane that both ends pick, and class 0."""
    num_boards, num_gpus, num_planes = dims
    first = num_boards * num_gpus
    plane = first + (src + dst) % num_planes
    own, other = (plane + ends // num_gpus * num_planes for ends in (src, dst))
    following = np.where(at < first, own, np.where(at == other, dst, other))
    return following, np.zeros_like(at)


def by_level(topology: Topology) -> Orders:
    """Orders of the nodes for `UpDown`: by number, which rises from level to level."""
    nodes = np.arange(topology.num_nodes)
    keys = np.where(nodes >= topology.num_ranks, nodes, LOWEST_KEY)[None]
    return keys, keys, np.zeros((1, 2), np.int32), np.zeros(topology.num_ranks, np.int32)


def by_half(topology: Topology) -> Orders:
    """Orders of BiGraph's nodes: up to the half that is not the source's, in a class of its own."""
    num_ranks, nodes = topology.num_ranks, np.arange(topology.num_nodes)
    hosts, num_switches = topology.dims
    switches = nodes >= num_ranks
    lower = switches & (nodes < num_ranks + num_switches // 2)
    keys = np.where(switches, [nodes, nodes + np.where(lower, len(nodes), 0)], LOWEST_KEY)
    group = (nodes[:num_ranks] // hosts >= num_switches // 2).astype(np.int32)
    return keys, keys, np.array([[0, 0], [1, 1]], np.int32), group


def _tree(family: str, dims: tuple[int, ...]) -> Topology:
    shape = tree_shape(family, dims)
    num_switches = int(shape.first_node[-1] - shape.first_node[1])
    if num_switches > MAX_RANKS:
        raise TopologyError(
            f"Number of switches must be at most {MAX_RANKS}, not {num_switches} in {family!r}"
        )
    links = np.concatenate(
        [
            _rows(nodes, np.concatenate([shape.below(nodes), shape.above(nodes)], axis=1))
            for nodes in shape.levels()
        ]
    )
    spec = dims[:-1] if family == "kary_tree" and dims[-1] == 1 else dims
    return named_family(
        family,
        dims,
        int32s("Links", links),
        num_ranks=int(shape.first_node[1]),
        num_switches=num_switches,
        name=f"{family}:{'x'.join(str(size) for size in spec)}",
    )


def _rows(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return np.stack([np.repeat(sources, targets.shape[1]), targets.ravel()], axis=1)
