"""Trees over switches: no link held too long, a slot on all links of a route."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitree import ScheduleError, parse_topology
from multitree.topology.networks.bounds import link_occupancy
from multitree.topology.networks.cost_model import usual_cost_model
from multitree.topology.packing import switch_packing
from multitree.topology.packing.modulo_schedule import has_slots, modulo_schedule
from multitree.topology.packing.modulo_search import OutwardPlan
from multitree.topology.packing.route_search import RouteSearch
from multitree.topology.packing.switch_packing import pack_over_switches
from tests.topology.graphs import over, random_switched_topology, star
from tests.topology.oracles import check_packing

SPECS = "fat_tree:3x2 bigraph:2x4 kary_tree:2x3x2 dgx2 dragonfly:2x1x1"


def slots_held(packing, overlay_links):
    """Slots that all trees hold each link of the real network, one way or the other."""
    held = np.zeros(1 + max(map(max, overlay_links.routes)), int)
    reverse = packing.topology.reverse
    for link in packing.links[packing.links >= 0]:
        for way in (link, reverse[link]):
            np.add.at(held, overlay_links.routes[way], packing.slots[way])
    return held


def star_of(*speeds):
    """Ranks around a switch, their links with so many GB/s."""
    return star(len(speeds), np.repeat(speeds, 2))


@over(SPECS)
def test_every_tree_joins_all_ranks_and_no_link_is_held_longer_than_the_period(topology):
    packing, overlay_links = pack_over_switches(topology)
    assert (slots_held(packing, overlay_links) <= packing.period).all()
    check_packing(packing)


@over(SPECS, star_of(8.0, 16.0, 16.0, 4.0))
def test_each_way_is_a_route_between_its_ends_and_the_reverse_links_lead_back(topology):
    _, overlay_links = pack_over_switches(topology)
    network = overlay_links.network
    for link, route in enumerate(overlay_links.routes):
        ends = topology.links[route]
        assert (ends[1:, 0] == ends[:-1, 1]).all()
        assert [ends[0, 0], ends[-1, 1]] == network.links[link].tolist()
        assert overlay_links.routes[link ^ 1] == topology.reverse[route[::-1]].tolist()
        assert network.latency_ns[link] == topology.latency_ns[route].sum()
        slowest = topology.bandwidth_gbytes_per_s[route].min()
        assert network.bandwidth_gbytes_per_s[link] == slowest


@pytest.mark.parametrize(
    ("spec", "num_trees", "period"), [("fat_tree:4x4", 8, 15), ("kary_tree:2x3x2", 4, 7)]
)
def test_the_bound_is_reached(spec, num_trees, period):
    packing, _ = pack_over_switches(parse_topology(spec))
    assert (packing.num_trees, packing.period) == (num_trees, period)


def test_a_slow_link_carries_a_leaf_and_holds_its_partner_as_long():
    topology = star_of(8.0, 16.0, 16.0, 16.0, 16.0)
    packing, overlay_links = pack_over_switches(topology)
    assert (packing.links[:, 0] >= 0).all() and not (packing.parents == 0).any()
    assert packing.slots[packing.links[:, 0]].tolist() == [2] * packing.num_trees
    assert (slots_held(packing, overlay_links) <= packing.period).all()
    # Each tree takes 2 slots of the slow link, whatever the others do.
    assert 2 <= packing.period / packing.num_trees <= 2.2


def test_so_many_trees_as_asked_for_and_the_same_again():
    topology = parse_topology("fat_tree:3x2")
    first, second = (pack_over_switches(topology, num_trees=3)[0] for _ in range(2))
    assert first.num_trees == 3
    assert (first.links == second.links).all() and (first.parents == second.parents).all()
    with pytest.raises(ScheduleError, match="Number of trees must be at least 1, not 0"):
        pack_over_switches(topology, num_trees=0)


def test_trees_that_are_not_found_within_the_last_slack_are_an_error_that_names_the_network(
    monkeypatch,
):
    tried = []
    monkeypatch.setattr(switch_packing, "SLACKS", (0.0, 0.0, 0.5, 4.0))
    monkeypatch.setattr(switch_packing._Search, "packed", lambda _, *count: tried.append(count))
    with pytest.raises(ScheduleError, match=r"'fat_tree.*': trees must be found within 5 times"):
        pack_over_switches(parse_topology("fat_tree:3x2"))
    periods = [period / num_trees for num_trees, period in tried]
    # None is as short as one tried before.
    assert len(tried) == 4 and periods == sorted(set(periods))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100_000))
def test_no_link_of_a_route_is_held_twice_and_everything_waits_for_what_is_before(seed):
    rng = np.random.default_rng(seed)
    period, num, num_links = int(rng.integers(4, 12)), int(rng.integers(2, 20)), 8
    before = [int(rng.integers(-1, transfer)) if transfer else -1 for transfer in range(num)]
    plan = OutwardPlan(
        period,
        num_links,
        [bool(flag) for flag in rng.integers(2, size=num)],
        before,
        rng.integers(0, 5, num).tolist(),
        [0] * num,
        rng.integers(1, 3, num).tolist(),
    )
    holds = [rng.permutation(num_links)[: rng.integers(1, 4)].tolist() for _ in range(num)]
    found = RouteSearch(plan, holds, seed)
    held = np.zeros((num_links, period), int)
    for transfer, links in enumerate(holds):
        ready = found.time[before[transfer]] if before[transfer] >= 0 else 0
        assert 0 <= found.time[transfer] - ready - plan.lag[transfer] < period
        for slot in range(plan.slots[transfer]):
            start = plan.start(transfer, found.time[transfer])
            held[links, (start + slot) % period] += 1
    assert found.is_conflict_free == (held.max() <= 1), f"seed {seed}"


def test_what_a_way_takes_is_all_its_latencies_its_slowest_link_and_room_for_a_longer_one():
    topology = star_of(8.0, 16.0, 16.0)
    _, overlay_links = pack_over_switches(topology)
    cost_model = usual_cost_model(topology)
    of_routes = overlay_links.cost_model_of_routes(cost_model)
    for link, route in enumerate(overlay_links.routes):
        assert of_routes.latency_cycles[link] == sum(cost_model.latency_cycles[route])
        assert of_routes.cycles_per_flit[link] == max(cost_model.cycles_per_flit[route])
    assert of_routes.message_cycles == cost_model.message_cycles + cost_model.latency_cycles.max()
    assert (of_routes.num_flits, of_routes.part_flits) == (cost_model.num_flits, None)


@pytest.mark.slow
@over(SPECS)
def test_a_packing_has_slots_within_its_period(topology):
    packing, overlay_links = pack_over_switches(topology)
    table = modulo_schedule(packing, 1, routes=overlay_links.routes)
    assert has_slots(packing, overlay_links.routes) and table.packing.period == packing.period


def test_what_adds_to_one_sum_goes_one_by_one_on_whatever_links():
    packing, overlay_links = pack_over_switches(parse_topology("dgx2"))
    table = modulo_schedule(packing, 1, routes=overlay_links.routes)
    for parents, starts, links in zip(
        packing.parents, table.reduce_slots, packing.links, strict=True
    ):
        for parent in range(len(parents)):
            children = np.flatnonzero((parents == parent) & (links >= 0))
            adding = [
                int(starts[child]) + slot
                for child in children
                for slot in range(packing.slots[links[child]])
            ]
            assert len(adding) == len(set(adding))


def three_on_a_link(period, slots, reduces=(False,) * 3, lag=(0,) * 3, seed=0):
    """Three transfers that wait for none, and the times found for them."""
    plan = OutwardPlan(period, 1, [*reduces], [-1] * 3, [*lag], [0] * 3, [slots] * 3)
    return RouteSearch(plan, [[0]] * 3, seed)


@pytest.mark.parametrize("seed", range(20))
def test_transfers_of_two_slots_fill_a_link(seed):
    """Of any lag, there and back, as many as there is room for."""
    rng = np.random.default_rng(seed)
    reduces = [bool(flag) for flag in rng.integers(2, size=3)]
    lag = rng.integers(0, 6, 3).tolist()
    assert three_on_a_link(6, 2, reduces, lag, seed).is_conflict_free, f"seed {seed}"


def test_what_is_held_for_two_slots_goes_right_behind_another():
    assert sorted(three_on_a_link(7, 2).time) == [0, 2, 4]


def test_three_transfers_do_not_fit_two_slots():
    assert not three_on_a_link(2, 1).is_conflict_free
    assert three_on_a_link(3, 1).is_conflict_free


def test_a_period_that_is_too_short_is_made_longer():
    packing, overlay_links = pack_over_switches(star(3), num_trees=1)
    assert has_slots(packing, overlay_links.routes)
    short = replace(packing, period=1)
    assert not has_slots(short, overlay_links.routes)
    longer = modulo_schedule(short, 1, routes=overlay_links.routes).packing
    assert longer.period == packing.period == 2


def test_links_that_differ_both_ways_count_as_the_slower():
    topology = star(2, [16.0, 8.0, 16.0, 16.0])
    packing, _ = pack_over_switches(topology)
    assert link_occupancy(topology).tolist() == [1, 2, 1, 1]
    assert packing.slots.tolist() == [2, 2]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_random_fabrics_are_packed(seed):
    packing, overlay_links = pack_over_switches(random_switched_topology(seed, most_ranks=9))
    assert (slots_held(packing, overlay_links) <= packing.period).all(), f"seed {seed}"
