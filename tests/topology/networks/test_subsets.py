"""Networks of some ranks, or that lost some: who is left, and that all sum there."""

import networkx as nx
import numpy as np
import pytest

from multitree import Topology, TopologyError, build, dgx_a100, parse_topology, ring, torus, verify
from multitree.topology.networks.subsets import among, links_among
from tests.refusals import refuses
from tests.topology.graphs import copy_of, one_way_ring, random_switched_topology
from tests.topology.oracles import sums

TWELVE = [11, *range(11)]
DIAGONAL_LEFT_OUT = [rank for rank in range(16) if rank % 5]


def uneven(topology):
    """The same with another speed and delay on every link."""
    figures = np.arange(1.0, 1.0 + topology.num_links)
    return copy_of(topology, figures, figures[::-1])


def by_figures(topology, nodes):
    """Links as pairs of `nodes`, by their speed and delay."""
    figures = zip(topology.bandwidth_gbytes_per_s, topology.latency_ns, strict=True)
    ends = np.array(nodes)[topology.links].tolist()
    return {each: tuple(end) for each, end in zip(figures, ends, strict=True)}


@pytest.mark.parametrize("ranks", [TWELVE, DIAGONAL_LEFT_OUT])
def test_those_who_take_part_keep_their_order_and_the_others_vanish_or_become_switches(ranks):
    whole = uneven(torus(4, 4))
    others = sorted(set(range(16)) - set(ranks))
    for forwarding, nodes in ((False, sorted(ranks)), (True, sorted(ranks) + others)):
        left = among(whole, ranks, forwarding=forwarding)
        assert (left.num_ranks, left.num_switches) == (12, 4 * forwarding)
        kept = np.isin(whole.links, nodes).all(axis=1)
        wanted = by_figures(whole, range(16))
        speeds = set(whole.bandwidth_gbytes_per_s[kept].tolist())
        assert by_figures(left, nodes) == {
            figures: ends for figures, ends in wanted.items() if figures[0] in speeds
        }
        assert left.family == "custom"


def test_names_tell_who_takes_part_and_all_are_the_network_itself():
    whole = torus(4, 4)
    assert among(whole, range(16), forwarding=True) is whole
    assert among(whole, TWELVE).name == "torus:4x4 among ranks 0-11"
    for network, ranks, says in (
        (whole, [0, 1, 2, 5, 7, 8], "ranks 0-2, 5, 7-8"),
        (ring(9), [0, 2, 4, 6], "ranks 0, 2, 4, 6"),
        (whole, range(0, 16, 3), "6 ranks"),
    ):
        name = among(network, ranks, forwarding=True).name
        assert name == f"{network.name} among {says}, others forwarding"


def test_former_ranks_are_numbered_before_former_switches():
    mixed = Topology("mixed", 3, 1, [[0, 1], [1, 3], [3, 2], [2, 0]], 16.0, [1.0, 2.0, 3.0, 4.0])
    left = among(mixed, [0, 2], forwarding=True)
    assert by_figures(left, [0, 2, 1, 3]) == by_figures(mixed, range(4))


def test_what_lies_on_no_way_between_ranks_is_left_out():
    # A fat tree's spare ranks hang on a leaf; a leaf without ranks lies between its spines.
    left = among(parse_topology("fat_tree:4x4"), [0, 1, 5, 6], forwarding=True)
    assert (left.num_ranks, left.num_switches, left.num_links) == (4, 8, 2 * (4 + 16))
    assert left.links.tolist() == among(parse_topology("fat_tree:4x4"), [0, 1, 5, 6]).links.tolist()
    # Planes of the other box are cut off.
    assert among(dgx_a100(2), range(8)).num_switches == 6 + 8 + 2
    # A tail of two.
    tail = Topology("tail", 3, 2, [[a, b] for a, b in nx.DiGraph(nx.path_graph(5)).edges], 16, 150)
    assert among(tail, [0, 1]).num_nodes == among(tail, [0, 1], forwarding=True).num_nodes == 2


def test_who_is_cut_off_is_named_and_so_are_numbers_that_cannot_be():
    one_way = one_way_ring(3)
    for whole, ranks in ((ring(6), [4, 3, 1, 0]), (one_way, [0, 1]), (one_way, [0, 2])):
        says = f"Rank {ranks[1]} of '{whole.name}' must be connected with rank 0 over"
        refuses(TopologyError, says, among, whole, ranks)
    assert among(one_way, [0, 1], forwarding=True).links.tolist() == [[0, 1], [1, 2], [2, 0]]
    refuses(TopologyError, r"Rank must be within 0\.\.5, not 6", among, ring(6), [0, 6])
    says = "ranks that take part must be at least 2, not 1"
    refuses(TopologyError, says, among, ring(6), [3], forwarding=True)
    refuses(TopologyError, "Rank must be listed once, not 3 again", among, ring(6), [3, 0, 3])
    says = "Link must be listed once, not 1 again"
    refuses(TopologyError, says, ring(6).without, links=[1, 1])


def is_right(schedule):
    """Whether the schedule is proved and sums int32 as NumPy does."""
    verify(schedule)
    return sums(schedule)


@pytest.mark.parametrize("algorithm", ["multitree", "ring", "double_tree", "halving_doubling"])
@pytest.mark.parametrize(
    ("spec", "ranks"),
    [
        ("torus:4x4", TWELVE),
        ("torus:4x4", DIAGONAL_LEFT_OUT),
        ("mesh:4x4", [0, 3, 12, 15]),
        ("bigraph:2x4", [0, 3, 5, 6]),
        ("dgx_a100:2", [0, 1, 2, 9, 12]),
        ("dragonfly:2x1x2", range(1, 12, 2)),
    ],
)
def test_every_algorithm_sums_among_some_ranks(spec, ranks, algorithm):
    whole = parse_topology(spec)
    assert is_right(build(among(whole, ranks, forwarding=True), algorithm))
    if spec != "mesh:4x4":
        assert is_right(build(among(whole, ranks), algorithm))


def test_random_networks_with_forwarding_ranks_are_connected_and_summed_on():
    for seed in range(40):
        print(f"seed {seed}")
        whole = random_switched_topology(seed, both_directions=bool(seed % 2))
        rng = np.random.default_rng(seed)
        ranks = rng.permutation(whole.num_ranks)[: rng.integers(2, whole.num_ranks + 1)]
        left = among(whole, ranks, forwarding=True)
        apart = np.array([whole.hop_distances(rank)[np.sort(ranks)] for rank in np.sort(ranks)])
        now = np.array([left.hop_distances(rank)[: len(ranks)] for rank in range(len(ranks))])
        assert (apart == now).all()
        for algorithm in ("multitree", "double_tree"):
            assert is_right(build(left, algorithm))


@pytest.mark.parametrize("forwarding", [False, True])
@pytest.mark.parametrize(
    ("spec", "ranks"),
    [
        *(("torus:2x4", [0, 1, 2]), ("torus:2x4", [3, 2, 7, 6]), ("torus:2x4", range(8))),
        ("torus:4x4", [1, 2, 5, 6, 9, 15, 10, 11]),
    ],
)
def test_links_of_a_subset_are_named_by_their_ids_in_the_whole(spec, ranks, forwarding):
    whole = parse_topology(spec)
    part = among(whole, ranks, forwarding=forwarding)
    ids = links_among(whole, ranks, forwarding=forwarding)
    inside = sorted(ranks)
    for link, (src, dst) in zip(ids.tolist(), part.links.tolist(), strict=True):
        ends = whole.links[link].tolist()
        for node, end in ((src, ends[0]), (dst, ends[1])):
            assert end == inside[node] if node < len(inside) else end not in inside
    assert part.link_ports.tolist() == whole.link_ports[ids].tolist()
    assert (part.num_ports == whole.num_ports[0]).all()
    assert links_among(ring(6), range(6)).tolist() == list(range(12))


def test_a_failed_link_takes_its_reverse_and_nothing_else():
    whole = torus(4, 4)
    left = whole.without(links=[5])
    gone = {5, int(whole.reverse[5])}
    kept = [link for link in range(whole.num_links) if link not in gone]
    assert (left.links == whole.links[kept]).all()
    assert (left.family, left.num_ranks) == ("custom", 16)
    assert left.name == f"torus:4x4 without links {', '.join(map(str, sorted(gone)))}"


def test_a_failed_rank_takes_its_links_and_those_left_keep_their_order():
    whole = uneven(torus(4, 4))
    left = whole.without(ranks=[6, 2])
    old = [rank for rank in range(16) if rank not in (2, 6)]
    kept = np.isin(whole.links, old).all(axis=1)
    assert (np.array(old)[left.links] == whole.links[kept]).all()
    assert (left.bandwidth_gbytes_per_s == whole.bandwidth_gbytes_per_s[kept]).all()
    assert (left.latency_ns == whole.latency_ns[kept]).all()


def test_a_failed_switch_leaves_the_ranks_numbers_alone():
    whole = parse_topology("fat_tree:2x2")
    left = whole.without(switches=[whole.num_nodes - 1])
    assert (left.num_ranks, left.num_switches) == (4, whole.num_switches - 1)
    assert verify(build(left, "multitree")).max_link_load >= 1


@pytest.mark.parametrize(
    ("spec", "lost"),
    [
        ("torus:4x4", {"links": [3]}),
        ("torus:4x4", {"ranks": [5]}),
        ("torus:4x4", {"links": [0, 17], "ranks": [9, 10]}),
        ("mesh:3x3", {"ranks": [4]}),
        ("hypercube:4", {"links": range(0, 64, 9)}),
        ("bigraph:2x4", {"links": [23]}),
    ],
)
@pytest.mark.parametrize("algorithm", ["multitree", "ring", "double_tree", "halving_doubling"])
def test_every_algorithm_plans_anew_and_sums_what_is_left(spec, lost, algorithm):
    assert is_right(build(parse_topology(spec).without(**lost), algorithm))


def test_what_falls_apart_or_is_not_there_is_refused_by_name():
    ring = parse_topology("ring:4")
    with pytest.raises(TopologyError, match=r"'ring:4 without links 0, 3, 4, 7' must be reachable"):
        ring.without(links=[0, 4])
    refuses(TopologyError, r"Link must be within 0\.\.7, not 8", ring.without, links=[8])
    refuses(TopologyError, r"Rank must be within 0\.\.3, not -1", ring.without, ranks=[-1])
    refuses(TopologyError, "Switch must be absent, having none, not 4", ring.without, switches=[4])
    with pytest.raises(TopologyError, match=r"Switch must be within 4\.\.7, not 3"):
        parse_topology("fat_tree:2x2").without(switches=[3])
    refuses(TopologyError, r"Link must be a number, not 1\.0", ring.without, links=[1.0])
    refuses(TopologyError, "Rank must be a number, not True", ring.without, ranks=[True])
    refuses(TopologyError, "Number of ranks must be within 2", ring.without, ranks=[0, 1, 2])
