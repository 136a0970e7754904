"""Who waits for whom, from what went onto links and what came off them."""

from collections import defaultdict

import numpy as np
import pytest

from multitree.hw.codes import HOP_WIDTH
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import DeviceError
from multitree.nic.driver.formats import NUM_HOPS
from multitree.nic.driver.routed_rows import places_in_sums, routes_of
from multitree.nic.layouts import head_layout
from multitree.sim.emulator.native import CROSSING
from multitree.sim.faults.in_flight import InFlight
from multitree.sim.faults.wait_graph import WaitForGraph
from multitree.topology.collectives import Op
from tests.sim.small_networks import UNEVEN, around, network
from tests.topology.graphs import by_hand

CONFIG = Config(num_ports=1, buffer_flits=8, num_classes=2)
LENGTH = 21
ALL = (LENGTH, LENGTH)
FIRST_SEQUENCE = 255
CHANNEL = "VC 1 of link 8 (switch 4 to switch 5)"
ROWS = {
    0: "Row 0 (step 0, flow 0, REDUCE 1 -> 2)",
    3: "Row 3 (step 3, flow 0, GATHER 0 -> 1)",
    4: "Row 4 (step 4, flow 0, GATHER 0 -> 3)",
    5: "Row 5 (step 5, flow 0, GATHER 0 -> 2)",
}


def head_of(schedule, collective, row, hop):
    """A head as it is on a link of its route, in two words."""
    layout = head_layout(CONFIG)
    fields = {
        "flow": schedule.flow[row],
        "op": schedule.op[row],
        "order": places_in_sums(schedule)[row],
        "sequence": (FIRST_SEQUENCE + collective) % 256,
        "route": routes_of(schedule, np.array([row]), CONFIG)[1][0] >> 6 * hop,
    }
    bits = sum(int(value) << layout[name].offset for name, value in fields.items())
    return bits & 2**64 - 1, bits >> 64


def reported(schedule, *messages, arrived=(), one_channel=False, num_collectives=None):
    """The sentence for messages: collective, row, and for each link (sent, taken) so far.

    In the order in which their heads went onto links. `arrived` are rows of collective 0.
    """
    found = defaultdict(list)
    taken = np.zeros((schedule.topology.num_links, 8), np.int64)
    for collective, row, *flits in [(0, row, ALL, ALL, ALL, ALL) for row in arrived] + [*messages]:
        entries = range(schedule.route_offsets[row], schedule.route_offsets[row + 1])
        for hop, (entry, (sent, off)) in enumerate(zip(entries, flits, strict=False)):
            link, vc_class = schedule.route_links[entry], schedule.route_classes[entry]
            parity = (FIRST_SEQUENCE + collective * (not one_channel)) % 2
            vc, head = 2 * vc_class + parity, head_of(schedule, collective, row, hop)
            found[link].append((*head, sent, vc, sent == LENGTH, 0))
            taken[link, vc] += off
    crossings = [
        (np.array(found[link], CROSSING), taken[link])
        for link in range(schedule.topology.num_links)
    ]
    last = max((message[0] for message in messages), default=0)
    schedules = [schedule] * (num_collectives or 1 + last)
    is_in = np.zeros((len(schedules), schedule.num_transfers), bool)
    is_in[0, list(arrived)] = True
    in_flight = InFlight(schedules, CONFIG, crossings, FIRST_SEQUENCE)
    return WaitForGraph(schedules, in_flight, is_in).sentence()


def test_heads_wait_for_channels_that_others_hold():
    text = reported(around(3, dateline=False), *[(0, row, (16, 8), (8, 0)) for row in range(3)])
    assert text == (
        "circle of waits: Row 0 (step 0, flow 0, REDUCE 2 -> 1) waits at switch 3 for VC 1 of link "
        "6 (switch 3 to switch 4), held by Row 1 (step 0, flow 1, REDUCE 0 -> 2), which waits at "
        "switch 4 for VC 1 of link 8 (switch 4 to switch 5), held by Row 2 (step 0, flow 2, REDUCE "
        "1 -> 0), which waits at switch 5 for VC 1 of link 10 (switch 5 to switch 3), held by the "
        "first"
    )


@pytest.mark.parametrize("num_ranks", [7, 9, 11])
def test_a_long_circle_is_reported_in_eight_messages(num_ranks):
    text = reported(
        around(num_ranks, dateline=False), *[(0, row, (16, 8), (8, 0)) for row in range(num_ranks)]
    )
    assert text.count("Row ") == min(num_ranks, 8)
    assert (f"waits behind {num_ranks - 8} more" in text) == (num_ranks > 8)
    assert text.startswith("circle of waits: ") and text.endswith("held by the first")


def test_contributions_wait_for_their_turn_and_bar_the_way_of_others():
    held = reported(UNEVEN, (0, 2, (21, 21), (16, 8), (8, 0)), (0, 1, (8, 0)), arrived=[0])
    assert held == (
        "circle of waits: Row 1 (step 1, flow 0, REDUCE 3 -> 0) waits at switch 5 for VC 1 of link "
        "9 (switch 5 to switch 4), held by Row 2 (step 2, flow 0, REDUCE 2 -> 0), which waits at "
        "rank 0, where its turn in the sum comes after the first"
    )
    behind = reported(UNEVEN, (0, 2, ALL, ALL, (21, 0)), (0, 1, ALL, ALL, (21, 0)), arrived=[0])
    assert behind == held.replace(
        "at switch 5 for VC 1 of link 9 (switch 5 to switch 4), held by",
        "in VC 1 of link 1 (switch 4 to rank 0) behind",
    )


def test_the_next_collective_waits_until_this_one_has_ended():
    blocking = (1, 0, (21, 21), (16, 8), (8, 0))
    text = reported(UNEVEN, blocking, (0, 5, (8, 0)), arrived=range(5), one_channel=True)
    assert text == (
        f"circle of waits: {ROWS[5]} of collective 0 waits at switch 4 for {CHANNEL}, held by "
        f"{ROWS[0]} of collective 1, which waits at rank 2, which has not ended collective 0 and "
        "needs the first"
    )
    in_hands = reported(UNEVEN, blocking, (0, 5, (8, 1)), arrived=range(5))
    assert "at switch 4 for link 8 (switch 4 to switch 5), used by Row 0" in in_hands
    unsent = reported(UNEVEN, blocking, (0, 4, (8, 0)), arrived=range(4), one_channel=True)
    assert unsent.endswith(
        f"and needs {ROWS[5]} of collective 0, which has not left rank 0, where it comes after "
        "the first"
    )


def test_of_several_collectives_a_rank_is_at_the_first_that_it_has_not_ended():
    blocking = (2, 0, (21, 21), (16, 8), (8, 0))
    text = reported(UNEVEN, blocking, (1, 5, (8, 0)), arrived=range(6), one_channel=True)
    assert text.startswith(f"circle of waits: {ROWS[5]} of collective 1")
    assert text.endswith("at rank 2, which has not ended collective 1 and needs the first")


def test_what_a_message_needs_may_be_barred_by_what_waits_for_the_message():
    schedule = around(3, dateline=False)
    text = reported(
        schedule,
        (1, 2, (21, 21), (21, 16), (16, 8), (8, 0)),
        (0, 0, (8, 0)),
        arrived=np.flatnonzero(schedule.flow != 0),
        one_channel=True,
    )
    assert "needs Row 3 (step 1, flow 0, REDUCE 1 -> 0) of collective 0, which has not left" in text
    assert text.startswith("circle of waits: ") and text.endswith("which needs the first")


def test_a_rank_has_not_ended_before_all_that_it_sends_has_left():
    schedule = around(3, dateline=False)
    last = int(np.flatnonzero((schedule.step == 3) & (schedule.src == 0))[0])
    text = reported(
        schedule,
        (1, 2, (21, 20), (20, 16), (16, 8), (8, 0)),
        (0, last, (16, 8), (8, 0)),
        arrived=sorted({*range(schedule.num_transfers)} - {last}),
        one_channel=True,
    )
    assert "held by Row 2 (step 0, flow 2, REDUCE 1 -> 0) of collective 1, which waits at" in text
    assert text.endswith("rank 0, which has not ended collective 0 and needs the first")


@pytest.mark.parametrize(
    ("messages", "arrived", "end"),
    [
        ([], [], "has not left rank 1, although all it needs is there"),
        (
            [(0, 0, (3, 3), (3, 3), (3, 3))],
            [],
            "at rank 1, although VC 1 of link 2 (rank 1 to switch 4) is free",
        ),
        ([(0, 4, (20, 12), (12, 12), (12, 12))], range(4), "at switch 4, although VC 1 of link 8"),
        ([(0, 0, (8, 0))], [], "VC 1 of link 8 (switch 4 to switch 5), which no message holds"),
        ([(0, 0, ALL, ALL, (8, 0))], [], "waits at rank 2, which does not take it"),
        ([(0, 0, ALL, ALL, ALL)], [], "has come in at rank 2, and is not all in memory"),
        ([(0, 2, ALL, ALL, ALL), (0, 1, ALL, ALL, (8, 3))], [0], "Row 1 (step 1"),
    ],
)
def test_without_a_circle_the_end_of_a_chain_is_named(messages, arrived, end):
    text = reported(UNEVEN, *messages, arrived=arrived)
    assert text.startswith("no circle of waits: Row ") and end in text
    assert "the first" not in text


def test_a_channel_is_held_by_who_was_granted_it_and_credits_are_spent_on_who_came_before():
    granted = reported(UNEVEN, (0, 4, (8, 1)), (0, 0, (8, 0)))
    assert granted == (
        f"no circle of waits: {ROWS[0]} waits at switch 4 for {CHANNEL}, held by {ROWS[4]}, "
        f"which waits at switch 4, although {CHANNEL} is free"
    )
    # Its last flit is in the switch, and what came behind it bars nothing.
    last = reported(UNEVEN, (0, 4, ALL, *2 * [(20, 20)]), (0, 5, (8, 0)), arrived=range(4))
    assert last.endswith(f"waits at switch 4, although {CHANNEL} is free")
    # The parity stays what it was on the link before.
    blocking = (1, 4, (16, 8), (8, 0))
    parity = reported(UNEVEN, blocking, (1, 0, (8, 0)), arrived=range(6), one_channel=True)
    assert f"for {CHANNEL}, held by Row 4" in parity
    # Who has sent its tail holds nothing, and what it left in the buffer may leave room.
    gone = (0, 4, ALL, (21, 16), (15, 7))
    nobody = reported(UNEVEN, gone, (0, 0, (8, 0)))
    assert nobody.endswith(f"for {CHANNEL}, which no message holds")
    room = reported(UNEVEN, gone, (0, 0, (8, 1)))
    assert room.endswith(f"waits at switch 4, although {CHANNEL} is free")
    full = reported(UNEVEN, (0, 4, ALL, (21, 13), (12, 4)), (0, 0, (8, 1)))
    assert full == (
        f"no circle of waits: {ROWS[0]} waits at switch 4 for a credit of {CHANNEL}, spent on "
        f"{ROWS[4]}, which waits at rank 3, which does not take it"
    )
    early = (1, 3, (21, 13), (12, 4))
    at_source = reported(UNEVEN, early, arrived=range(4), one_channel=True)
    assert at_source == (
        f"no circle of waits: {ROWS[4]} of collective 0 waits at rank 0 for a credit of VC 1 of "
        f"link 0 (rank 0 to switch 4), spent on {ROWS[3]} of collective 1, which waits at rank "
        "1, which does not take it"
    )


def test_a_message_whose_own_flits_have_all_credits_waits_for_nobody_else():
    """Its last link has brought more than the one before let go, as where a flit was doubled."""
    schedule = around(3, dateline=False)
    text = reported(schedule, (0, 0, (14, 12), (12, 4), (12, 12), (12, 12)))
    assert text == (
        "no circle of waits: Row 0 (step 0, flow 0, REDUCE 2 -> 1) waits at switch 5 for a credit "
        "of VC 1 of link 10 (switch 5 to switch 3), spent on its own flits"
    )


def test_where_all_is_in_nothing_is_said_and_a_message_of_no_schedule_is_an_error():
    assert reported(UNEVEN, arrived=range(6)) == ""
    with pytest.raises(DeviceError, match="Link 2 carries a message that is none of the schedule"):
        reported(UNEVEN, (1, 0, (8, 0)), num_collectives=1)


@pytest.mark.parametrize("port", [2, 3, 31])
def test_a_head_that_leads_nowhere_is_an_error(port):
    # From switch 5, of three ports: to and fro between the switches, or to where there is none.
    hops = sum(port << HOP_WIDTH * hop for hop in range(NUM_HOPS))
    bits = hops << head_layout(CONFIG)["route"].offset
    crossings = [(np.zeros(0, CROSSING), np.zeros(8, np.int64))] * UNEVEN.topology.num_links
    crossings[8] = np.array([(bits & 2**64 - 1, bits >> 64, 1, 0, 0, 0)], CROSSING), np.zeros(8)
    with pytest.raises(DeviceError, match="Link 8 carries a message that is none"):
        InFlight([UNEVEN], CONFIG, crossings, 0)


def test_a_row_waits_for_those_before_it_in_the_table_on_other_ports_too():
    pairs = [(rank, switch) for switch in (3, 4) for rank in range(3)]
    schedule = by_hand(
        network("two planes", 3, 2, pairs),
        [(0, Op.GATHER, 0, 0, 1), (1, Op.GATHER, 1, 0, 2), (2, Op.GATHER, 0, 0, 2)],
        "broadcast",
        0,
        routes=([0, 2, 4, 6], [0, 3, 6, 11, 0, 5], [0] * 6),
    )
    text = reported(schedule, (1, 2, (21, 13), (12, 4)), arrived=[2], one_channel=True)
    assert text == (
        "circle of waits: Row 0 (step 0, flow 0, GATHER 0 -> 1) of collective 0 waits at rank 0 "
        "for a credit of VC 1 of link 0 (rank 0 to switch 3), spent on Row 2 (step 2, flow 0, "
        "GATHER 0 -> 2) of collective 1, which waits at rank 2, which has not ended collective 0 "
        "and needs Row 1 (step 1, flow 1, GATHER 0 -> 2) of collective 0, which has not left rank "
        "0, whose table has before it the first"
    )
