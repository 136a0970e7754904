"""Over switches, too, trees grow as the algorithm says, and no two messages meet."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from multitree import ScheduleError, Topology, build, execute, parse_topology, verify
from multitree.topology.algorithms import multitree
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.algorithms.multitree_switched import grow_over_switches
from multitree.topology.collectives import COLLECTIVES, ROOTED, Op
from multitree.topology.routing.updown import up_down
from multitree.topology.schedules.trees import transposed
from tests.topology.graphs import copy_of, over, random_switched_topology, rows_of, topologies
from tests.topology.oracles import adds_in_order, does_its_collective, goes_up_then_down

SMALL = (
    "fat_tree:4x4 fat_tree:3x2 kary_tree:2x3x2 kary_tree:5x1 bigraph:2x4",
    "dgx2 dgx_a100:2 dragonfly:2x1x1",
)


STEPS = {"fat_tree:4x4": 15, "fat_tree:3x5": 14, "fat_tree:8x8": 63, "dgx2": 3}
STEPS |= {"bigraph:4x8": 31, "bigraph:4x16": 63, "bigraph:8x4": 34}
STEPS |= {"kary_tree:5x1": 4, "kary_tree:3x3": 26, "kary_tree:4x2x2": 16, "kary_tree:4x2x4": 18}
STEPS |= {"kary_tree:4x3x2": 66, "dragonfly:2x1x2": 11, "dragonfly:3x1x2": 25}


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "steps"), STEPS.items())
def test_steps_of_each_phase(spec, steps):
    schedule = build_multitree(parse_topology(spec))
    assert (schedule.steps_reduce_scatter, schedule.steps_all_gather) == (steps, steps)
    report = verify(schedule)
    assert report.contention_free
    assert report.num_messages == 2 * schedule.num_flows * (schedule.num_flows - 1)


@pytest.mark.parametrize(("spec", "steps"), [("dgx_a100:2", 4), ("dgx_a100:4x2", 8)])
def test_a_slow_route_is_held_until_its_chunk_has_come_and_only_then_passed_on(spec, steps):
    topology = parse_topology(spec)
    schedule = build_multitree(topology)
    report = verify(schedule)
    assert report.contention_free and report.causal and does_its_collective(schedule)
    assert schedule.steps_reduce_scatter == steps
    offsets, step = schedule.route_offsets, schedule.step.tolist()
    held = {}
    for row, (first, last) in enumerate(itertools.pairwise(offsets.tolist())):
        taken = schedule.route_links[first:last]
        for when in range(int((16 / topology.bandwidth_gbytes_per_s[taken]).max())):
            for link in taken.tolist():
                assert held.setdefault((link, step[row] + when), row) == row


@pytest.mark.slow
@pytest.mark.parametrize("both_directions", [True, False])
def test_on_random_graphs_of_unequal_speeds_no_two_messages_meet_and_all_wait_for_their_chunk(
    both_directions,
):
    for seed in range(30):
        print(f"seed {seed}")
        base = random_switched_topology(seed, both_directions=both_directions)
        speeds = np.random.default_rng(seed).choice([16.0, 12.0, 8.0, 5.0], base.num_links)
        report = verify(build_multitree(copy_of(base, speeds)))
        assert report.contention_free and report.causal


def least_rest(schedule):
    """Fewest steps from a chunk's last arrival at a rank to its passing it on; None if never."""
    came, rest = {}, []
    for step, op, flow, src, dst in rows_of(schedule).tolist():
        if (op, flow, src) in came:
            rest.append(step - came[op, flow, src])
        came[op, flow, dst] = step
    return min(rest, default=None)


@over("fat_tree:4x4 bigraph:2x4 kary_tree:2x3x2")
@pytest.mark.parametrize("rest_steps", [1, 3, 5])
def test_a_rank_passes_a_chunk_on_when_it_has_rested(topology, rest_steps):
    schedule = build_multitree(topology, rest_steps=rest_steps)
    assert verify(schedule).contention_free
    assert least_rest(schedule) in (None, *range(rest_steps, schedule.num_steps))


def test_it_rests_as_long_as_that_costs_no_step():
    rested = build_multitree(parse_topology("bigraph:4x8"))
    assert least_rest(rested) == 16
    hasty = build_multitree(parse_topology("bigraph:8x4"))
    assert least_rest(hasty) == 1
    with pytest.raises(ScheduleError, match="Rest steps must be at least 1, not 0"):
        build_multitree(parse_topology("bigraph:4x8"), rest_steps=0)


def test_it_rests_no_longer_than_interfaces_can_count(monkeypatch):
    for most, children in ((64, 19), (18, 11), (10, 7)):
        monkeypatch.setattr(multitree, "MOST_CONTRIBUTIONS", most)
        schedule = build_multitree(parse_topology("bigraph:4x8"))
        sums = schedule.flow * 32 + schedule.dst
        assert np.bincount(sums[schedule.op == Op.REDUCE]).max() == children


@over("fat_tree:4x4 bigraph:4x8 kary_tree:2x3")
def test_routes_grow_longer_while_sums_are_made_and_shorter_afterwards(topology):
    schedule = build_multitree(topology)
    longest = np.zeros(schedule.num_steps, np.int64)
    np.maximum.at(longest, schedule.step, np.diff(schedule.route_offsets))
    reduce, gather = np.split(longest, 2)
    assert (np.diff(reduce) >= 0).all()
    assert (np.diff(gather) <= 0).all()
    assert reduce[0] == gather[-1] == 2


@over(*SMALL)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_does_what_it_says_without_contention(topology, collective):
    root = topology.num_ranks - 1 if collective in ROOTED else None
    schedule = build(topology, "multitree", collective, root)
    assert verify(schedule).contention_free
    assert does_its_collective(schedule)
    if root is not None:
        assert schedule.num_flows == topology.degree[root]


@over(*SMALL)
def test_execute_adds_each_tree_in_its_order_bit_for_bit(topology):
    adds_in_order(build_multitree(topology), 4 * topology.num_ranks, seed=7)


@given(topologies(switches=True))
@settings(deadline=None, print_blob=True, max_examples=60)
def test_random_networks_with_switches_go_from_build_to_execute(topology):
    schedule = build_multitree(topology)
    assert verify(schedule).contention_free
    routes = (schedule.route_offsets, schedule.route_links, schedule.route_classes)
    goes_up_then_down(topology, schedule.src, *routes)
    assert does_its_collective(schedule)
    values = np.arange(topology.num_ranks * 40, dtype=np.int32).reshape(topology.num_ranks, 40)
    assert (execute(schedule, values) == values.sum(axis=0)).all()


def distances(topology, rank, free):
    """Links to each other rank over free links by legal ways, a plain search of all."""
    orders = up_down(topology)
    group = int(orders.group[rank])
    up = orders.links_up(topology.links, group) & free
    down = orders.links_down(topology.links, group) & free
    seen = {(rank, False): 0}
    found = {}
    level = [(rank, False)]
    for link in np.flatnonzero(free & (topology.links[:, 0] == rank)).tolist():
        if topology.links[link, 1] < topology.num_ranks:
            found[int(topology.links[link, 1])] = 1
    while level:
        following = []
        for node, turned in level:
            for link in topology.ports(node).tolist():
                for turns in (False, True):
                    state = (int(topology.links[link, 1]), turns)
                    may = down[link] if turns else up[link] and not turned
                    if may and state not in seen:
                        seen[state] = seen[node, turned] + 1
                        found[state[0]] = min(seen[state], found.get(state[0], 10**9))
                        following.append(state)
        level = following
    return found


def nearest(topology, members, outside, free):
    ways = [distances(topology, member, free) for member in members]
    return min((way[rank] for way in ways for rank in way.keys() & outside), default=None)


@pytest.mark.parametrize("order", ["ascending", "descending", "link"])
def test_each_turn_adds_a_nearest_outsider_over_free_links_as_long_as_there_is_one(order):
    networks = [parse_topology(spec) for spec in ("fat_tree:3x2", "bigraph:2x4", "kary_tree:4x1")]
    networks += [random_switched_topology(seed, most_ranks=8) for seed in range(12)]
    one_way = [random_switched_topology(seed, both_directions=False) for seed in range(6)]
    for topology in [*networks, *one_way, *map(transposed, one_way)]:
        if not topology.num_switches:
            continue
        print(topology.name)
        ranks = set(range(topology.num_ranks))
        roots = sorted(ranks)
        grown = grow_over_switches(topology, roots, roots, neighbour_order=order)
        members = {root: {root: -1} for root in roots}
        free = np.ones(topology.num_links, bool)
        now = 0
        for edge, (step, tree, parent, child) in enumerate(grown.edges.tolist()):
            if step > now:
                for each in roots:
                    able = [rank for rank, joined in members[each].items() if joined < now]
                    assert nearest(topology, able, ranks - set(members[each]), free) is None
                adding = grown.edges[grown.edges[:, 0] == step, 1].tolist()
                assert len(members[tree]) == max(len(members[each]) for each in adding)
                free[:] = True
                now = step
            able = [rank for rank, joined in members[tree].items() if joined < step]
            route = grown.links[grown.offsets[edge] : grown.offsets[edge + 1]]
            assert parent in able and child not in members[tree]
            shortest = nearest(topology, able, ranks - set(members[tree]), free)
            assert free[route].all() and len(route) == shortest
            free[route] = False
            members[tree][child] = step


def test_equally_near_ranks_are_taken_in_the_order_asked_for():
    topology = parse_topology("kary_tree:4x1")
    first = {"ascending": [1, 0, 3], "descending": [3, 2, 1], "link": [1, 2, 3]}
    for order, children in first.items():
        grown = grow_over_switches(topology, [0, 1, 2], [0, 1, 2], neighbour_order=order)
        assert grown.edges[:3, 3].tolist() == children
    for spec, best in (("kary_tree:5x1", "link"), ("fat_tree:4x4", "ascending")):
        network = parse_topology(spec)
        chosen = build_multitree(network, neighbour_order=best)
        assert build_multitree(network).hash == chosen.hash


def test_a_rank_may_be_linked_with_a_rank_beside_its_switch():
    links = [[0, 3], [3, 0], [1, 3], [3, 1], [2, 3], [3, 2], [0, 2], [2, 0]]
    schedule = build_multitree(Topology("attached", 3, 1, links, 16.0, 150.0))
    start = schedule.steps_reduce_scatter
    for dst, route in ((2, [6]), (1, [0, 3])):
        row = np.flatnonzero((schedule.step == start) & (schedule.src == 0) & (schedule.dst == dst))
        first, last = schedule.route_offsets[[row[0], row[0] + 1]]
        assert schedule.route_links[first:last].tolist() == route
    assert verify(schedule).contention_free
