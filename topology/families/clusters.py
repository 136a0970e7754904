"""Families of clusters: boxes of GPUs joined by rails, and dragonflies."""

from dataclasses import dataclass

import numpy as np

from multitree.topology.arrays import Int64Array, int32s, int64s
from multitree.topology.errors import TopologyError
from multitree.topology.families.direct import (
    LOWEST_KEY,
    check_num_ranks,
    check_size,
    named_family,
)
from multitree.topology.families.switched import Orders
from multitree.topology.networks.nodes import DEFAULT_BANDWIDTH_GBYTES_PER_S, MAX_LINKS, MAX_RANKS
from multitree.topology.networks.topology import Topology

__all__ = [
    "BOX_GPUS",
    "BOX_PLANES",
    "DragonflyShape",
    "along_boxes",
    "dgx_a100",
    "dragonfly",
]


@dataclass(frozen=True)
class DragonflyShape:
    """Groups of routers: all of a group are linked with each other, any two groups by one link.

    Nodes are ranks, then routers, group by group. The ah links of a group to others are counted
    router by router; link k of group i leads to group i + k + 1, all around.
    """

    # a, h and p: routers of a group, links of each to other groups, ranks on each.
    routers: int
    links_out: int
    hosts: int

    @property
    def num_groups(self) -> int:
        """As many as there can be: ah + 1."""
        return self.routers * self.links_out + 1

    @property
    def num_routers(self) -> int:
        """Of all groups."""
        return self.routers * self.num_groups

    @property
    def num_ranks(self) -> int:
        """Of all groups."""
        return self.hosts * self.num_routers

    def gateway(self, group: Int64Array, other: Int64Array) -> Int64Array:
        """The router of a group that is linked with another, different group, int64 (n,)."""
        link = (other - group - 1) % self.num_groups
        return np.asarray(self.num_ranks + group * self.routers + link // self.links_out)

    def onward(
        self, at: Int64Array, src: Int64Array, dst: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """The next node of the route through no third group, and the class of the link to it.

        Class 1 is behind the link between two groups, and into a rank; else it is 0.
        """
        first = self.num_ranks
        last = first + dst // self.hosts
        goal, start = ((node - first) // self.routers for node in (last, first + src // self.hosts))
        here = (at - first) // self.routers
        # Within one group any other group will do: what it gives is replaced below.
        out = self.gateway(here, np.where(goal == here, here + 1, goal))
        across = self.gateway(goal, np.where(goal == here, here + 1, here))
        onward = np.where(at == out, across, out)
        onward = np.where(here == goal, last, onward)
        onward = np.where(at == last, dst, onward)
        onward = np.where(at < first, first + at // self.hosts, onward)
        # As in Kim et al. (2008): minimal routes change the virtual channel
        # from group to group, so that links within groups close no cycle.
        behind = (here == goal) & (start != goal)
        return onward, (behind | (onward < first)).astype(np.int64)

    def orders(self) -> Orders:
        """Orders of the nodes for `UpDown`, a group of its own for what leaves by each router.

        Up from that router to all of its group and from these to others; down from the routers
        where its group's links end to the others, and to ranks.
        """
        router, groups = np.arange(self.num_routers), np.arange(self.num_groups)
        group, place = np.divmod(router, self.routers)
        up = np.where(group[:, None] == group, 2, 3)
        up[router, router] = 1
        enters = (groups[:, None] - group - 1) % self.num_groups // self.links_out == place
        down = np.where(enters, 2, 1)[group]
        ranks = np.full((self.num_routers, self.num_ranks), LOWEST_KEY)
        up, down = (int64s("Keys", np.concatenate([ranks, keys], axis=1)) for keys in (up, down))
        classes = np.array([[0, 1]] * self.num_routers, np.int32)
        return up, down, classes, int32s("Groups", np.arange(self.num_ranks) // self.hosts)


BOX_GPUS, BOX_PLANES = 8, 6
NIC_SHARE = 0.5
"""Speed of a link between boxes, 25 GB/s, over that of a GPU to one plane, 50 GB/s."""


def dgx_a100(num_boxes: int, num_spines: int | None = None) -> Topology:
    """Boxes of eight GPUs and six NVSwitch planes, and a rail for each GPU of a box.

    Rank r is GPU r mod 8 of box r // 8. It has a link to each plane of its box, and one to the
    leaf switch of its rail, which all GPUs of that place share; each leaf has a link to each
    spine. Nodes are ranks, planes box by box, eight leaves, spines. Links go node by node; a
    leaf's are to its ranks, then to all spines, ascending.

    Parameters
    ----------
    num_boxes, num_spines : int
        B, at least 2, and S; B spines when left out, with which every cut above the leaves is as
        wide as that below them.

    Returns
    -------
    Topology
        Links to planes of 16 GB/s, all others of 8 GB/s, all of 150 ns.

    Raises
    ------
    TopologyError
        If a size is out of range.

    Notes
    -----
    A GPU of the real machine has two NVLinks of 25 GB/s to each plane, 300 GB/s in each direction,
    and a NIC of 25 GB/s. The ratio is kept and the fastest link put at the 16 GB/s of one flit of
    16 bytes per cycle at 1 GHz, the fastest that an interface can feed: times are those of the
    machine times 50/16.

    References
    ----------
    NVIDIA, "DGX A100 System Architecture", white paper WP-10083-001, 2020; "DGX SuperPOD: Scalable
    Infrastructure for AI Leadership", RA-09950-001, 2020, on rails.

    Examples
    --------
    >>> pod = dgx_a100(2)
    >>> pod.num_ranks, pod.num_switches, pod.degree[[0, 16, 28, 36]].tolist(), pod.diameter
    (16, 22, [7, 8, 4, 8], 4)
    >>> pod.links[pod.ports(28), 1].tolist(), pod.bandwidth_gbytes_per_s[pod.ports(0)].tolist()
    ([0, 8, 36, 37], [16.0, 16.0, 16.0, 16.0, 16.0, 16.0, 8.0])
    """
    check_size("dgx_a100", num_boxes, 2, MAX_RANKS)
    check_num_ranks("dgx_a100", BOX_GPUS * int(num_boxes))
    check_size("dgx_a100", num_boxes if num_spines is None else num_spines, 1, MAX_RANKS // 8)
    boxes, spines = int(num_boxes), int(num_boxes if num_spines is None else num_spines)
    num_ranks, leaf, _, num_nodes = _firsts(boxes, spines)
    links = _box_links(boxes, spines)
    share = np.where((links >= leaf).any(axis=1), NIC_SHARE, 1.0)
    return named_family(
        "dgx_a100",
        (boxes, spines),
        int32s("Links", links),
        num_ranks=num_ranks,
        num_switches=num_nodes - num_ranks,
        name=f"dgx_a100:{boxes}" if spines == boxes else f"dgx_a100:{boxes}x{spines}",
        bandwidth_gbytes_per_s=DEFAULT_BANDWIDTH_GBYTES_PER_S * share,
    )


def along_boxes(
    dims: tuple[int, ...], at: Int64Array, src: Int64Array, dst: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """The next node on `dgx_a100`, over a plane that both ends pick, or over rails; and class 0.

    From rail to rail by the spine that the destination's box picks, as on a fat tree: paths to a
    rank are one tree, and paths to ranks of as many boxes as there are spines share no link up.
    """
    boxes, spines = dims
    num_ranks, leaf, spine, _ = _firsts(boxes, spines)
    (source, rail), (box, place) = (np.divmod(ends, BOX_GPUS) for ends in (src, dst))
    # Seven others over six planes: one whose number differs in all bits shares its plane with one
    # that differs in all but the lowest.
    apart = (src ^ dst) % BOX_GPUS
    plane = num_ranks + box * BOX_PLANES + apart % (BOX_GPUS - 1) % BOX_PLANES
    first = np.where(source == box, plane, leaf + rail)
    at_leaf = np.where(at - leaf == place, dst, spine + box % spines)
    following = [first, dst, at_leaf]
    onward = np.select([at < num_ranks, at < leaf, at < spine], following, leaf + place)
    return onward, np.zeros_like(at)


def _box_links(boxes: int, spines: int) -> np.ndarray:
    num_ranks, leaf, spine, num_nodes = _firsts(boxes, spines)
    rank, plane = np.arange(num_ranks), np.arange(boxes * BOX_PLANES)
    own = num_ranks + (rank // BOX_GPUS * BOX_PLANES)[:, None] + np.arange(BOX_PLANES)
    rails, leaves = leaf + rank[:, None] % BOX_GPUS, np.arange(BOX_GPUS)
    in_box = (plane // BOX_PLANES * BOX_GPUS)[:, None] + np.arange(BOX_GPUS)
    on_rail = leaves[:, None] + BOX_GPUS * np.arange(boxes)
    above = np.broadcast_to(np.arange(spine, num_nodes), (BOX_GPUS, spines))
    return np.concatenate(
        [
            _rows(rank, np.concatenate([own, rails], axis=1)),
            _rows(num_ranks + plane, in_box),
            _rows(leaf + leaves, np.concatenate([on_rail, above], axis=1)),
            _rows(above[0], np.broadcast_to(leaf + leaves, (spines, BOX_GPUS))),
        ]
    )


def _firsts(boxes: int, spines: int) -> tuple[int, int, int, int]:
    """The first plane, leaf and spine, and the number of nodes."""
    plane = boxes * BOX_GPUS
    leaf = plane + boxes * BOX_PLANES
    return plane, leaf, leaf + BOX_GPUS, leaf + BOX_GPUS + spines


def dragonfly(routers_per_group: int, links_per_router: int, hosts_per_router: int) -> Topology:
    """A dragonfly of ah + 1 groups of a routers, each with p ranks and h links to other groups.

    All routers of a group are linked with each other, and any two groups by one link: of the ah
    links of group i, counted router by router, link k leads to group i + k + 1, all around. Rank
    r is on router r // p, its one link. Links go node by node; a router's are to its ranks, to its
    group, then to other groups, as they are counted.

    Parameters
    ----------
    routers_per_group, links_per_router, hosts_per_router : int
        a, h and p; a = 2h = 2p is balanced.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If a size is out of range.

    References
    ----------
    J. Kim, W. J. Dally, S. Scott, D. Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology",
    ISCA 2008; the order of links between groups is "relative" in E. Hastings et al., "Comparing
    Global Link Arrangements for Dragonfly Networks", IEEE Cluster 2015.

    Examples
    --------
    >>> fly = dragonfly(4, 2, 2)
    >>> fly.num_ranks, fly.num_switches, fly.diameter, fly.links[fly.ports(72), 1].tolist()
    (72, 36, 5, [0, 1, 73, 74, 75, 79, 83])
    """
    sizes = (routers_per_group, links_per_router, hosts_per_router)
    for size in sizes:
        check_size("dragonfly", size, 1, MAX_RANKS)
    dims = tuple(int(size) for size in sizes)
    shape = DragonflyShape(*dims)
    check_num_ranks("dragonfly", shape.num_ranks)
    num_links = shape.num_routers * (2 * shape.hosts + shape.routers - 1 + shape.links_out)
    if num_links > MAX_LINKS or shape.num_routers > MAX_RANKS:
        raise TopologyError(f"Links must be at most {MAX_LINKS}, not {num_links} in 'dragonfly'")
    first, router, rank = shape.num_ranks, np.arange(shape.num_routers), np.arange(shape.num_ranks)
    group, place = np.divmod(router, shape.routers)
    others = np.arange(1, shape.routers)
    # All routers of the group but this one: the numbers up to its own are one less.
    peers = first + (group * shape.routers)[:, None] + (others <= place[:, None]) * -1 + others
    out = place[:, None] * shape.links_out + np.arange(shape.links_out)
    there = (group[:, None] + out + 1) % shape.num_groups
    across = shape.gateway(there, np.broadcast_to(group[:, None], there.shape))
    hosts = router[:, None] * shape.hosts + np.arange(shape.hosts)
    links = np.concatenate(
        [
            np.stack([rank, first + rank // shape.hosts], axis=1),
            _rows(first + router, np.concatenate([hosts, peers, across], axis=1)),
        ]
    )
    return named_family(
        "dragonfly",
        dims,
        int32s("Links", links),
        num_ranks=shape.num_ranks,
        num_switches=shape.num_routers,
    )


def _rows(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return np.stack([np.repeat(sources, targets.shape[1]), targets.ravel()], axis=1)
