"""Tests of the middle of a switch: order, sharing, age, and what goes nowhere."""

import functools
import itertools

import pytest

from multitree.hw.link.link import Kind
from multitree.hw.switch.fabric import SwitchFabric
from tests.hw.streams import assert_refused, seeded
from tests.hw.switch.switches import (
    FLIT_BYTES,
    LAYOUT,
    carry,
    expected,
    flits_of,
    forwarded,
    message_to,
    numbers_of,
    traffic,
    whole,
)


def a_fabric(num_ports, num_vcs, **layout):
    sizes = {"num_ports": num_ports, "num_vcs": num_vcs, "flit_bytes": FLIT_BYTES}
    return SwitchFabric(**sizes, **(LAYOUT | layout))


the_fabric = functools.cache(a_fabric)
"""One for all tests that run it from its reset."""


def check(out, queues):
    """Every message came once, whole, on its channel, and in order with those of its input."""
    wanted = expected(queues)
    assert set(out) == set(wanted)
    for place, came in flits_of(out).items():
        messages = whole(came)
        for sent in wanted[place].values():
            assert [flits for flits in messages if flits in sent] == sent
        assert len(messages) == sum(map(len, wanted[place].values()))


@pytest.mark.parametrize(("num_ports", "num_vcs"), [(2, 2), (3, 4), (4, 2)])
@pytest.mark.parametrize(
    ("stall_i", "stall_o"), [("never", "never"), ("bursts", "seldom"), ("seldom", "often")]
)
def test_every_message_comes_out_whole_on_its_channel_and_in_order(
    num_ports, num_vcs, stall_i, stall_o
):
    queues = traffic(seeded(num_ports), num_ports, num_vcs, count=12 // num_ports)
    stalls = {"stall_i": stall_i, "stall_o": stall_o}
    out, strobes, left = carry(the_fabric(num_ports, num_vcs), queues, **stalls)
    assert not left and not any(strobes.values())
    check(out, queues)


def test_a_flit_leaves_a_cycle_after_it_came_and_messages_are_a_cycle_apart():
    queues = {(0, 0): [message_to(1, 3, number=1), message_to(1, 1, number=2)]}
    out, _, _ = carry(the_fabric(2, 2), queues, cycles=12)
    assert [cycle for cycle, _, _ in out[1, 0]] == [1, 2, 3, 4, 6, 7]


@pytest.mark.parametrize("num_ports", [3, 4])
def test_every_port_sends_a_flit_per_cycle_where_each_has_one(num_ports):
    queues = {
        (port, 1): [message_to((port + 1) % num_ports, 60, number=port)]
        for port in range(num_ports)
    }
    out, _, left = carry(the_fabric(num_ports, 2), queues, cycles=64)
    assert not left
    for port in range(num_ports):
        assert [cycle for cycle, _, _ in out[port, 1]] == [*range(1, 62)]


def test_one_input_sends_to_several_outputs_at_once():
    queues = {(0, vc): [message_to(1 + vc, 30, number=vc)] for vc in range(2)}
    out, _, _ = carry(the_fabric(3, 2), queues, cycles=40)
    for vc in range(2):
        assert [cycle for cycle, _, _ in out[1 + vc, vc]] == [*range(1, 32)]


def test_channels_take_turns_on_a_link_that_is_never_idle():
    inputs = [((0, 0), 0), ((0, 1), 0), ((1, 0), 1), ((1, 1), 1)]
    queues = {
        place: [message_to(2, 30, vc_class, number=k)] for k, (place, vc_class) in enumerate(inputs)
    }
    out, _, left = carry(the_fabric(3, 4), queues, cycles=130)
    assert not left and set(out) == {(2, vc) for vc in range(4)}
    times = sorted(cycle for came in out.values() for cycle, _, _ in came)
    assert times == [*range(1, 4 * 31 + 1)]
    for came in out.values():
        assert {b[0] - a[0] for a, b in itertools.pairwise(came)} == {4}


def test_short_messages_of_several_inputs_follow_each_other_without_a_gap():
    queues = {
        (port, 0): [message_to(2, 1, number=10 * port + k) for k in range(5)] for port in range(2)
    }
    out, _, _ = carry(the_fabric(3, 2), queues, cycles=40)
    assert [cycle for cycle, _, _ in out[2, 0]] == [*range(1, 21)]


@pytest.mark.parametrize("blocked", [(2, 0), (2, 3)])
def test_a_channel_without_credits_holds_up_its_own_messages_and_nobody_else(blocked):
    rng = seeded(blocked[1])
    queues = traffic(rng, 3, 4)
    held = {}
    for place, messages in queues.items():
        goes = {
            k: (flits[0][1] >> 24 & 31, 2 * (flits[0][1] >> 29 & 1) + place[1] % 2)
            for k, flits in enumerate(messages)
        }
        # What is behind a held message on its own channel waits with it.
        first = next((k for k in goes if goes[k] == blocked), len(messages))
        held[place], queues[place] = messages[first:], messages[:first]
    assert sum(map(len, held.values())) > 5 and sum(map(len, queues.values())) > 10
    every = {place: [*queues[place], *held[place]] for place in queues}
    out, strobes, left = carry(the_fabric(3, 4), every, blocked=[blocked])
    kept = {place: sum(map(len, messages)) for place, messages in held.items() if messages}
    # One of them has the channel, and its head in a register.
    kept_too = {place: kept[place] - len(flits) for place, flits in left.items()}
    assert set(left) == set(kept) and sorted(kept_too.values())[-2:] == [0, 1]
    assert not any(strobes.values())
    check(out, queues)


def test_a_message_that_stops_in_the_middle_keeps_its_channel_and_not_the_link():
    cut = message_to(2, 4, number=1)[:3]
    queues = {
        (0, 0): [cut],
        (1, 0): [message_to(2, 2, number=2)],
        (1, 1): [message_to(2, 20, number=3)],
    }
    out, _, left = carry(the_fabric(3, 2), queues, cycles=60)
    assert numbers_of(out, (2, 0)) == [1] * 3
    assert list(left) == [(1, 0)] and len(out[2, 1]) == 21


AGES = {
    "step": [{"step": 3}, {"step": 2}],
    "sequence": [{"sequence": 5, "step": 0}, {"sequence": 4, "step": 9}],
    "wrap": [{"sequence": 0}, {"sequence": 255}],
}


@pytest.mark.parametrize("name", AGES)
@pytest.mark.parametrize("swapped", [False, True])
def test_of_two_heads_that_wait_the_older_one_goes_first(name, swapped):
    ages = AGES[name][::-1] if swapped else AGES[name]
    # A message of a third input has the channel while both come.
    queues = {(0, 0): [message_to(3, 8, number=9, step=1)]}
    for port, age in enumerate(ages, start=1):
        queues[port, 0] = [message_to(3, 2, number=port, **age)]
    out, _, _ = carry(the_fabric(4, 2), queues, cycles=40)
    order = numbers_of(out, (3, 0), [Kind.HEAD])
    older = 1 if swapped else 2
    assert [number for number in order if number != 9] == [older, 3 - older]


def test_heads_of_one_age_take_turns():
    queues = {(port, 0): [message_to(3, 1, number=port) for _ in range(6)] for port in range(3)}
    out, _, _ = carry(the_fabric(4, 2), queues, cycles=60)
    assert numbers_of(out, (3, 0), [Kind.HEAD]) == [0, 1, 2] * 6


NOWHERE = {"own port": (0, 0), "no such port": (3, 0), "far out": (31, 0), "no such class": (1, 1)}


@pytest.mark.parametrize("hop", NOWHERE.values(), ids=NOWHERE)
@pytest.mark.parametrize("size", [0, 1, 6])
def test_a_route_to_nowhere_is_a_fault_and_its_message_is_taken_whole(hop, size):
    good = message_to(2, 2, number=7)
    queues = {
        (0, 1): [message_to(hop[0], size, hop[1], number=1), good],
        (1, 1): [message_to(2, 8, number=2)],
    }
    out, strobes, left = carry(the_fabric(3, 2), queues, cycles=60)
    assert not left and strobes.pop("route_errors") == [(0, 0)] and not any(strobes.values())
    queues[0, 1] = [good]
    check(out, queues)


def test_flits_without_a_head_are_a_fault_and_are_dropped():
    good = message_to(1, 2, number=7)
    queues = {(0, 0): [message_to(1, 4)[1:], good, message_to(1, 1)[1:], good]}
    out, strobes, left = carry(the_fabric(2, 2), queues, cycles=60)
    assert not left and [port for _, port in strobes["framing_errors"]] == [0, 0]
    assert flits_of(out)[1, 0] == 2 * forwarded(good)


def test_a_head_in_the_middle_of_a_message_is_a_fault_and_a_message():
    queues = {
        (0, 0): [message_to(1, 4, number=1)[:3], message_to(2, 2, number=2)],
        (2, 0): [message_to(1, 2, number=3, step=1)],
    }
    out, strobes, left = carry(the_fabric(3, 2), queues, cycles=60)
    assert not left and [port for _, port in strobes["framing_errors"]] == [0]
    numbers = {place: numbers_of(out, place) for place in out}
    # The channel of the message that was cut is free for the next one.
    assert numbers == {(1, 0): [1, 1, 1, 3, 3, 3], (2, 0): [2, 2, 2]}


@pytest.mark.parametrize("when", [0, 1, 3, 5])
def test_a_link_that_is_lost_ends_the_messages_that_came_over_it(when):
    """Nothing more of the message comes; another one has the channel it held."""
    cut = message_to(2, 4, number=1)[:when]
    queues = {(0, 0): [cut] if cut else [], (1, 0): [message_to(2, 2, number=2, step=1)]}
    events = {20: {"lost": 1}, 21: {"lost": 0}}
    out, strobes, left = carry(the_fabric(3, 2), queues, cycles=60, events=events)
    assert not left
    whole_one = not 0 < when < 5
    assert strobes["lost_messages"] == ([] if whole_one else [(20, 0)])
    assert numbers_of(out, (2, 0)) == [1] * min(when, 5) + [2] * 3


def test_what_waits_for_a_channel_when_its_own_link_is_lost_is_not_granted_it():
    queues = {(1, 0): [message_to(2, 9, number=2)], (0, 0): [message_to(2, 2, number=1, step=1)]}
    # The head of input 0 waits; with its link it goes, which a test can only do by hand.
    events = {5: {"lost": 1}}
    out, strobes, left = carry(the_fabric(3, 2), queues, cycles=25, events=events)
    assert set(left) == {(0, 0)} and strobes["lost_messages"] == [(k, 0) for k in range(5, 25)]
    assert numbers_of(out, (2, 0)) == [2] * 10


@pytest.mark.parametrize("when", [1, 2, 4, 7, 9, 11])
def test_messages_to_a_link_that_is_gone_are_dropped_and_are_a_fault_of_its_port(when):
    """One has the channel, one waits for it, one comes later; all others go their way."""
    queues = {
        (0, 0): [message_to(2, 6, number=1), message_to(1, 2, number=4)],
        (1, 0): [message_to(2, 6, number=2, step=1), message_to(0, 2, number=5)],
        (1, 1): [message_to(0, 9, number=3), message_to(2, 9, number=6)],
    }
    events = {when: {"gone": 4}, 40: {"gone": 0}}
    queues[2, 0] = [message_to(1, 30, number=7)]
    out, strobes, left = carry(the_fabric(3, 2), queues, cycles=80, events=events)
    assert not left and not strobes["route_errors"] and not strobes["framing_errors"]
    assert {port for _, port in strobes["lost_messages"]} == {2}
    assert all(cycle < when for place, came in out.items() for cycle, _, _ in came if place[0] == 2)
    numbers = {number for place in out for number in numbers_of(out, place)}
    assert numbers >= {3, 4, 5, 7} and 6 not in numbers
    for place in ((0, 0), (0, 1), (1, 0)):
        assert all(flits[-1][0] == Kind.TAIL for flits in whole(flits_of(out)[place]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a_fabric(1, 2), "Ports must be from 2 to 32, not 1"),
        (lambda: a_fabric(33, 2), "Ports must be from 2 to 32, not 33"),
        (lambda: a_fabric(2, 3), "VCs of a switch must be 2 or 4, not 3"),
        (lambda: a_fabric(2, 2, route_offset=40), "Flit bits must be at least 52, not 48"),
        (lambda: a_fabric(2, 2, num_hops=0), "Hops must be at least 1, not 0"),
        (lambda: a_fabric(2, 2, sequence_offset=41), "Sequence offset must be from 0 to 40"),
        (lambda: a_fabric(2, 2, step_offset=-1), "Step offset must be from 0 to 32, not -1"),
    ],
)
def test_a_wrong_size_is_named(make, message):
    assert_refused(make, ValueError, message)
