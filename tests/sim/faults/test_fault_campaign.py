"""The fault campaign: a hundred runs, and that it tells what must not happen."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from multitree.sim.faults.injection import EVERY_ENTRY, FlipState
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from tests.benches import BENCH, bench_module
from tests.emulation import needs_rtl

SEED = int(os.environ.get("MULTITREE_SEED", "1"))


@pytest.fixture(scope="module")
def campaign():
    return bench_module("fault_campaign")


@pytest.fixture(scope="module")
def cases():
    return bench_module("_fault_cases")


@pytest.fixture(scope="module")
def exact_seed(campaign):
    """A run that a fault does not disturb, on private links: one library is compiled."""
    runs = (campaign.Run(campaign.draw(seed)).outcome() for seed in range(0, 50, 2))
    return next(outcome.seed for outcome in runs if outcome.name == campaign.EXACT)


@needs_rtl
@pytest.mark.long
@pytest.mark.parametrize("forward_flits", ["0", "32"])
def test_a_hundred_runs_end_exact_or_in_a_named_fault_and_recover(forward_flits):
    print(f"seed {SEED}")
    command = [sys.executable, str(BENCH / "fault_campaign.py"), "--json", "--seed", str(SEED)]
    command += ["--forward-flits", forward_flits]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    *kinds, everything = outcome["rows"]
    assert outcome["good"] and everything["runs"] == 100 == sum(row["runs"] for row in kinds)
    assert everything["exact"] + everything["faults"] == 100
    assert everything["recovered"] == everything["faults"] > 30
    assert everything["worst_time_over_bound"] < 1


def struck(campaign, cases, links):
    """A case with enough to do, and the states of a rank whose bits may flip in it, by number."""
    model = LinkModel(buffer_flits=cases.CONFIG.buffer_flits)
    if links == "forwarding":
        model = replace(model, forward_flits=32, dependency="submessage")
    case = replace(
        campaign.draw(SEED),
        network="twin:4" if links == "switched" else "full:4",
        algorithm="multitree",
        model=model,
        timing=MemoryTiming(seed=SEED),
        num_elements=599,
        op="sum",
        loads_ahead=False,
        num_collectives=1,
        lockstep=False,
        skews=(),
        kinds=("flip queue",),
    )
    return case, cases.states_of(cases.config_of(model, links == "switched"), False)


def flips(states, node, name, distance, every):
    """One or two check bits of every entry of a state flip again and again."""
    number = next(k for k, state in enumerate(states) if state.name == name)
    first = states[number].width - 1 - distance
    cycles = range(0, 1400, every)
    return tuple(FlipState(node, cycle, number, EVERY_ENTRY, first, distance) for cycle in cycles)


USED = {
    "private": (
        *("buffer_0.queue.register.o__payload", "port_0.queue.queue.storage", "scoreboard.marks_1"),
        *("reads.queue.o__payload", "acknowledger.ends.queue.storage", "marks.queue.storage"),
        *("operands.queue.o__payload", "responses.queue.o__payload", "writes.queue.o__payload"),
        *("sender.payload.queue.o__payload", "bank_1", "tracker.counts_0"),
    ),
    "switched": (
        *("sequencer.states", "arrivals_0.queue.storage", "buffer_0.queue.register.o__payload"),
        *("port_0.queue.queue.storage", "lane_0.ahead.queue.o__payload", "reads.queue.o__payload"),
        *("acknowledger.ends.queue.storage", "marks.queue.storage", "operands.queue.o__payload"),
        *("responses.queue.o__payload", "writes.queue.o__payload", "payload.queue.o__payload"),
        *("bank_1", "tracker.counts_0"),
    ),
    "forwarding": (
        *("buffer_0.queue.register.o__payload", "port_0.queue.queue.storage", "scoreboard.marks_1"),
        *("acknowledger.ends.queue.storage", "marks.queue.storage", "operands.queue.o__payload"),
        *("writes.queue.o__payload", "recent.ring", "source.all.queue.o__payload"),
        *("local.queue.queue.o__payload", "local.reads.queue.o__payload"),
        *(
            "sender.source.reader.chunks.queue.o__payload",
            "sender.source.searched.queue.o__payload",
        ),
        *("sender.source.reader.queue.order.queue.o__payload", "source.sequence.queue.o__payload"),
        *("write_order.queue.queue.o__payload", "descriptors.queue.o__payload"),
        *("bank_1", "tracker.counts_0", "beginnings.counts_0"),
    ),
}
"""Ends of the names of what is in use, by the kind of links; all must be reported."""


@needs_rtl
@pytest.mark.long
@pytest.mark.every_set
@pytest.mark.parametrize("links", list(USED))
@pytest.mark.parametrize("distance", [0, 1])
def test_every_state_of_an_interface_in_use_whose_bits_flip_is_reported(
    campaign, cases, links, distance
):
    case, states = struck(campaign, cases, links)
    lost = [end for end in USED[links] if not any(s.name.endswith(end) for s in states)]
    assert not lost
    names = {}
    for state in states:
        if ("port_" not in state.name or "port_0" in state.name) and not cases.is_plain(state):
            # Once what stays; what is held for a cycle in that, and what is held longer not twice.
            for every in (1400, 3, 1):
                faults = flips(states, 1, state.name, distance, every)
                outcome = campaign.Run(replace(case, faults=faults)).outcome()
                names[state.name] = outcome.name
                if outcome.name != campaign.EXACT:
                    break
    print(names)
    for name, outcome in names.items():
        code = "TABLE_PARITY" if "tables." in name else "STATE_PARITY"
        assert outcome in (code, campaign.EXACT), name
        if any(name.endswith(end) for end in USED[links]) and "reorder_buffer" not in name:
            assert outcome == code, name


@pytest.mark.parametrize(
    ("name", "depth", "kinds"),
    [
        ("core.port_0.sender.reads.queue.o__valid", 0, ["flip register", "flip switch"]),
        ("core.tracker.$signal$12", 0, ["flip register", "flip switch"]),
        ("core.port_0.sender.reads.queue.o__payload", 0, ["flip queue", "flip switch"]),
        (
            "core.port_0.link.receiver.buffer_0.queue.rest.storage",
            64,
            ["flip buffer", "flip switch"],
        ),
        ("core.port_0.receiver.reducer.adder.first_0", 0, []),
        ("bus.bus__rdata", 0, []),
    ],
)
def test_every_register_is_struck_but_those_of_the_bus_and_of_what_is_added(
    cases, name, depth, kinds
):
    state = cases.State(name, 4, depth)
    found = [kind for kind in cases.KINDS if kind in (*cases.OF_STATE, "flip switch")]
    assert [kind for kind in found if cases.is_of_kind(kind, state)] == kinds


@needs_rtl
@pytest.mark.long
def test_a_run_is_the_same_when_it_is_run_again(campaign):
    first, again = (campaign.Run(campaign.draw(2 * SEED)).outcome() for _ in range(2))
    assert first == again


@needs_rtl
@pytest.mark.long
def test_a_wrong_sum_without_a_fault_is_reported(campaign, exact_seed, monkeypatch):
    monkeypatch.setattr(campaign, "execute", lambda schedule, buffers, op: buffers + 1)
    outcome = campaign.Run(campaign.draw(exact_seed)).outcome()
    assert outcome.name == "WRONG" and campaign.table_of([outcome])[-1]["bad"] == 1


@needs_rtl
@pytest.mark.long
def test_a_run_beyond_its_bound_is_reported(campaign, exact_seed, monkeypatch):
    monkeypatch.setattr(campaign.Run, "_bound", lambda *sizes, ahead: 1)
    outcome = campaign.Run(campaign.draw(exact_seed)).outcome()
    assert outcome.name == "HANG" and campaign.table_of([outcome])[-1]["bad"] == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Rank 0: nothing progressed (WATCHDOG); origin rank 0", "WATCHDOG"),
        ("Rank 0: another stopped (PEER_FAULT); origin switch 4 (LINK_EPOCH)", "LINK_EPOCH"),
        ("Rank 0: another stopped (PEER_FAULT); origin rank 4", "PEER_FAULT"),
        ("Rank 0: running a collective, not over after 900 cycles, in step 1", "HANG"),
        ("Rank 0, port 1: link is not up after 900 cycles", "LINK_DOWN"),
        ("Rank 0: table is not accepted", "UNNAMED"),
        ("Rank 0: (SOMETHING) else", "UNNAMED"),
        ("Rank 0: no fault (NONE); origin rank 0", "UNNAMED"),
    ],
)
def test_errors_are_counted_by_the_fault_they_name(campaign, text, name):
    assert campaign.name_of(text) == name
