"""Where transfers are placed at first."""

from multitree.topology.slot_search import OutwardPlan, SlotSearch


def placed(period, *transfers):
    """Times of GATHER transfers, each (before, lag, link, slots)."""
    before, lag, link, slots = (list(column) for column in zip(*transfers, strict=True))
    plan = OutwardPlan(period, 9, [False] * len(lag), before, lag, link, slots)
    return SlotSearch(plan, 0).time


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
