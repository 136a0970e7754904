"""Tests of a lane: messages of one channel go on when they may, no sooner."""

import pytest

from multitree.hw.codes import AHEAD_FLITS
from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited
from multitree.nic.receive.shared_lane import SharedLane
from tests.hw.streams import put, run

CONFIG = Config(num_ports=1, num_classes=1, max_children=8, address_width=12)
LANE = SharedLane(CONFIG, unwritten_width=6)
FLOW = 3


def flits(size, payload=0):
    """A message's head and its payload, numbered."""
    kinds = [Kind.HEAD, *[Kind.BODY] * (size - 1), Kind.TAIL]
    return [{"kind": kind, "payload": payload + k} for k, kind in enumerate(kinds)]


def place(order, size, **fields):
    """Of a contribution that is added."""
    return {"flow": FLOW, "order": order, "size": size, "adds": 1, "address": 100} | fields


def simulate(messages, events=(), *, cycles=120, look_up_cycles=7, follow=False):
    """Cycle and order of each flit that moves, when each head is taken, and what is awaited.

    `messages` are places, in order; `events` maps a cycle to signals driven from it on. Heads are
    looked up one at a time, and with `follow` the lane is given its own messages before.
    """
    moved, heads, awaited = [], [], []
    stream = [flit for message in messages for flit in flits(message["size"])]

    async def drive(ctx):
        opens, events_left = [], dict(events)
        put(ctx, LANE.run, running=1)
        ctx.set(LANE.items.ready, 1)
        for cycle in range(cycles):
            for signal, value in events_left.pop(cycle, {}).items():
                ctx.set(signal(LANE), value)
            ctx.set(LANE.head.ready, not opens and ctx.get(LANE.run.running))
            if opens and opens[0][0] == cycle:
                put(ctx, LANE, place=opens.pop(0)[1], opened=1)
            ctx.set(LANE.flits.valid, bool(stream))
            if stream:
                ctx.set(LANE.flits.payload, stream[0])
            _, _, ready, head, valid, item, what = await ctx.tick().sample(
                *(LANE.flits.ready, LANE.head.valid & LANE.head.ready),
                *(LANE.items.valid & LANE.items.ready, LANE.items.payload, LANE.awaited),
            )
            ctx.set(LANE.opened, 0)
            awaited.append(what)
            if head:
                opens.append((cycle + look_up_cycles, messages[len(heads)]))
                heads.append(cycle)
            if valid:
                moved.append((cycle, item.mark.order, item.replace))
                if follow and item.end:
                    put(ctx, LANE.following, valid=1, flow=FLOW, order=item.mark.order + 1)
            if ready and stream:
                stream.pop(0)

    run(LANE, drive, keep=True)
    return moved, heads, awaited


def cycles_of(moved, order):
    return [cycle for cycle, of, _ in moved if of == order]


@pytest.mark.parametrize("waits", [0, 1])
def test_a_contribution_follows_the_one_before_it_as_fast_as_its_link_brings_it(waits):
    places = [place(0, 20), place(1, 20, waits=waits), place(2, 20, waits=waits)]
    moved, *_ = simulate(places, follow=True)
    for order in range(3):
        first = moved[0][0] + 21 * order
        assert cycles_of(moved, order) == [*range(first, first + 20)]


def test_one_whose_place_is_known_follows_at_once_the_one_in_hand():
    events = {0: {lambda lane: lane.items.ready: 0}, 60: {lambda lane: lane.items.ready: 1}}
    moved, *_ = simulate([place(0, 8), place(1, 8, waits=1)], events)
    assert cycles_of(moved, 0) + cycles_of(moved, 1) == [*range(60, 76)]


def test_a_head_is_taken_once_the_place_of_the_one_before_it_is_in_use():
    # The second message waits for its turn, so the third one's head stays where it is.
    moved, heads, awaited = simulate([place(0, 4), place(2, 4, waits=1), place(3, 4)])
    assert len(moved) == 4
    assert len(heads) == 2
    assert awaited[-1] == Awaited.SIBLING


@pytest.mark.parametrize("name", ["turn", "following"])
def test_a_contribution_waits_until_it_is_reported_of_its_turn_or_of_the_one_before_it(name):
    def of(field):
        return lambda lane: getattr(getattr(lane, name), field)

    reported = {of("valid"): 1, of("flow"): FLOW, of("order"): 2}
    others = {of("valid"): 1, of("flow"): FLOW + 1, of("order"): 2}
    early = {of("valid"): 1, of("flow"): FLOW, of("order"): 1}
    events = {0: others, 30: early, 50: reported}
    moved, *_ = simulate([place(2, 4, waits=1)], events)
    assert cycles_of(moved, 2) == [*range(cycles_of(moved, 2)[0], cycles_of(moved, 2)[0] + 4)]
    assert 50 < cycles_of(moved, 2)[0] <= 52


def test_a_contribution_behind_a_staged_one_is_not_next_to_it():
    events = {0: {lambda lane: lane.items.ready: 0}, 60: {lambda lane: lane.items.ready: 1}}
    staged = place(1, 8, adds=0, staged=1)
    moved, _, awaited = simulate([staged, place(2, 8, waits=1)], events)
    assert {(order, replace) for _, order, replace in moved} == {(1, 1)}
    assert awaited[-1] == Awaited.SIBLING


@pytest.mark.parametrize(("unwritten", "moves"), [(3, 4), (4, 0)])
def test_behind_one_not_in_memory_as_many_as_a_chunk_are_never_unwritten(unwritten, moves):
    events = {0: {lambda lane: lane.unwritten: unwritten}}
    moved, *_ = simulate([place(0, 4), place(1, 4, waits=1)], events, follow=True)
    assert len(cycles_of(moved, 0)) == 4
    assert len(cycles_of(moved, 1)) == moves


def test_a_flit_that_is_offered_stays_though_more_become_unwritten():
    events = {
        0: {lambda lane: lane.unwritten: 3},
        50: {lambda lane: lane.items.ready: 0},
        64: {lambda lane: lane.unwritten: 9},
        70: {lambda lane: lane.items.ready: 1},
    }
    events[0] |= {lambda lane: lane.following.flow: FLOW, lambda lane: lane.following.order: 1}
    events[58] = {lambda lane: lane.following.valid: 1}
    moved, *_ = simulate([place(1, 4, waits=1)], events)
    assert [cycle for cycle, *_ in moved] == [70]


def test_payload_comes_in_while_its_head_is_looked_up_and_no_more_than_there_is_room_for():
    moved, heads, _ = simulate([place(0, 60)], cycles=200, look_up_cycles=100)
    cycles = cycles_of(moved, 0)
    assert cycles == [*range(cycles[0], cycles[0] + 60)]
    assert len(heads) == 1
    assert AHEAD_FLITS < 60


def test_a_fault_drops_all_and_forgets_places():
    events = {
        20: {lambda lane: lane.run.running: 0, lambda lane: lane.run.faulted: 1},
        60: {lambda lane: lane.run.running: 1, lambda lane: lane.run.faulted: 0},
    }
    moved, heads, _ = simulate([place(0, 8, waits=1), place(1, 8)], events)
    assert not moved
    assert len(heads) == 1
