"""Where transfers are placed at first, and where swaps put them."""

import random

import pytest

from multitree.topology.packing.modulo_search import STEEPNESS, ModuloSearch, OutwardPlan


def placed(period, *transfers):
    """Times of GATHER transfers, each (before, lag, link, slots)."""
    before, lag, link, slots = (list(column) for column in zip(*transfers, strict=True))
    plan = OutwardPlan(period, 9, [False] * len(lag), before, lag, link, slots)
    return ModuloSearch(plan, 0).time


def test_each_transfer_comes_once_and_behind_the_one_that_it_follows():
    before = [-1, 0, 0, 1, -1, 4]
    ones = [1] * len(before)
    plan = OutwardPlan(4, 9, [False] * len(before), before, ones, ones, ones)
    assert plan.outwards() == [0, 4, 1, 2, 5, 3]
    assert plan.followers() == [2, 1, 0, 0, 1, 0]


def test_of_two_that_are_ready_the_one_that_more_follow_goes_first():
    assert placed(3, (-1, 0, 0, 1), (-1, 0, 0, 1), (1, 2, 1, 1)) == [1, 0, 2]
    assert placed(3, (-1, 0, 0, 1), (0, 2, 1, 1), (-1, 0, 0, 1)) == [0, 2, 1]


def test_one_that_waits_lets_go_first_what_becomes_ready_meanwhile_and_more_follow():
    first, waits, later = (-1, 0, 0, 1), (-1, 0, 0, 1), (-1, 1, 0, 1)
    follower = (2, 5, 1, 1)
    times = placed(3, first, waits, later, follower)
    assert sorted(times[:2]) == [0, 2] and times[2:] == [1, 6]


def test_a_link_s_cells_begin_where_its_first_transfer_does():
    assert placed(4, (-1, 3, 0, 2), (-1, 3, 0, 2)) in ([3, 5], [5, 3])
    assert placed(5, (-1, 4, 0, 3)) == [4]


def test_a_link_has_its_transfers_at_different_slots_of_the_period():
    times = placed(3, *[(-1, 7, 0, 1)] * 3)
    assert sorted(times) == [7, 8, 9]


def random_plan(rng, period=16, num_trees=8, size=5, num_links=8):
    """Trees of GATHER transfers, none with a link twice; some links are held for two slots."""
    of_link = [rng.choice([1, 1, 2]) for _ in range(num_links)]
    link = [at for _ in range(num_trees) for at in rng.sample(range(num_links), size)]
    before = [
        first + rng.randrange(place) if place else -1
        for first in range(0, num_trees * size, size)
        for place in range(size)
    ]
    lag, slots = [rng.randrange(1, 6) for _ in link], [of_link[at] for at in link]
    return OutwardPlan(period, num_links, [False] * len(link), before, lag, link, slots)


def cost(search):
    """What moves never raise."""
    return sum(STEEPNESS**time for time in search.time)


@pytest.mark.parametrize("seed", [3, 4])
def test_swaps_make_it_no_later_in_all_and_nothing_too_early_or_at_once_on_a_link(seed):
    print(f"seed {seed}")
    plan = random_plan(random.Random(seed))
    search = ModuloSearch(plan, seed)
    first = was = cost(search)
    for _ in range(30):
        search.improve(20)
        assert cost(search) <= was * (1 + 1e-9)
        was = cost(search)
        for before, lag, time in zip(plan.before, plan.lag, search.time, strict=True):
            ready = lag + (search.time[before] if before >= 0 else 0)
            assert ready <= time < ready + plan.period
        held = [
            (link, (time + slot) % plan.period)
            for link, slots, time in zip(plan.link, plan.slots, search.time, strict=True)
            for slot in range(slots)
        ]
        assert len(held) == len(set(held))
    assert was < first


@pytest.mark.parametrize("seed", [3, 4])
def test_a_move_costs_what_it_and_all_that_follow_make_the_sum_rise(seed):
    print(f"seed {seed}")
    rng = random.Random(seed)
    plan = random_plan(rng)
    # What is later than any at first costs infinity: let the last one come late.
    plan.lag[-1] += 100
    search = ModuloSearch(plan, seed)
    latest, rises, falls = max(search.time), 0, 0
    for _ in range(200):
        moved, times = [], list(search.time)
        # Not of the last tree, whose last one would come later still.
        transfer, residue = rng.randrange(len(times) - 5), rng.randrange(plan.period)
        search._residue[transfer] = residue
        more = search._moved(transfer, residue, moved)
        assert max(search.time) <= latest
        pairs = zip(search.time, times, strict=True)
        rise = sum(STEEPNESS**new - STEEPNESS**old for new, old in pairs)
        assert more == pytest.approx(rise, rel=1e-9)
        rises, falls = rises + (rise > 0), falls + (rise < 0 and len(moved) > 1)
    assert rises and falls
