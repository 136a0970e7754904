"""Without one of their protections messages wait in a circle, which is named."""

import re
from functools import cache

import numpy as np
import pytest

from multitree import DeviceError, LinkModel, ScheduleError, verify
from multitree.sim.rtl.session import RtlSession
from tests.emulation import needs_rtl
from tests.sim.emulated import checked
from tests.sim.faults.removals import CONFIG, NOTHING, library, remove
from tests.sim.small_networks import UNEVEN, around

pytestmark = [pytest.mark.slow, needs_rtl]

LANES = CONFIG.flit_bytes // 4
MODEL = LinkModel(buffer_flits=CONFIG.buffer_flits, submessage_flits=CONFIG.submessage_flits)
NUM_SEEDS = 8


def outcome(schedule, protection, *, seed, num_flits, most_skew, num_collectives):
    """What the engine says of a network without a protection; None if every bit was right."""
    remove(protection)
    rng = np.random.default_rng(seed)
    num_ranks = schedule.topology.num_ranks
    shape = (num_collectives, num_ranks, LANES * num_flits * schedule.num_flows)
    buffers = rng.integers(-(2**31), 2**31, shape, dtype=np.int32)
    skews = rng.integers(most_skew + 1, size=num_ranks).tolist()
    made = {"link_model": MODEL, "config": CONFIG, "library": library()}
    with RtlSession(schedule.topology, **made) as session:
        try:
            checked(session, schedule, buffers, start_skew_cycles=skews)
        except DeviceError as error:
            return str(error)
        finally:
            remove(NOTHING)
    return None


@cache
def reported_of(schedule, protection, **drawn):
    """Every seed's `outcome`, of runs that are done once."""
    return [outcome(schedule, protection, seed=k, **drawn) for k in range(NUM_SEEDS)]


def deadlocks(schedule, protection, **drawn):
    """Circles named in the seeded runs that stood still; with all protections none does."""
    assert reported_of(schedule, NOTHING, **drawn) == [None] * NUM_SEEDS
    stuck = [text for text in reported_of(schedule, protection, **drawn) if text is not None]
    print(f"without {protection}: {len(stuck)} of {NUM_SEEDS} runs stand still")
    assert all("WATCHDOG" in text or "FIRST_ARRIVAL" in text for text in stuck), stuck
    return [text.split("; circle of waits: ")[1] for text in stuck]


@pytest.mark.long
def test_without_staging_a_contribution_bars_the_way_of_the_one_that_it_waits_for():
    drawn = {"num_flits": 12, "most_skew": 1000, "num_collectives": 1}
    circles = deadlocks(UNEVEN, "staging", **drawn)
    assert len(circles) >= NUM_SEEDS // 4
    for circle in circles:
        assert re.fullmatch(
            r"Row 1 \(step 1, flow 0, REDUCE 3 -> 0\) waits .*VC 0 of link \d+ \(switch 5 to switch"
            r" 4\).* Row 2 \(step 2, flow 0, REDUCE 2 -> 0\), which waits at rank 0, where its turn"
            r" in the sum comes after the first",
            circle,
        )


@pytest.mark.long
@pytest.mark.parametrize(
    ("protection", "barred"),
    [
        ("parity", "for VC 0 of link 8 (switch 4 to switch 5), held by"),
        ("hold", "for link 8 (switch 4 to switch 5), used by"),
    ],
    ids=["one channel for both parities", "a link held per message"],
)
def test_without_a_way_of_its_own_a_collective_is_barred_by_the_next_one(protection, barred):
    drawn = {"num_flits": 60, "most_skew": 1000, "num_collectives": 3}
    circles = deadlocks(UNEVEN, protection, **drawn)
    assert len(circles) == NUM_SEEDS
    for circle in circles:
        assert re.fullmatch(
            r"Row 5 \(step 5, flow 0, GATHER 0 -> 2\) of collective (\d) waits at switch 4 "
            + re.escape(barred)
            + r" Row 0 \(step 0, flow 0, REDUCE 1 -> 2\) of collective (\d), which waits at rank"
            r" 2, which has not ended collective \1 and needs the first",
            circle,
        )


@pytest.mark.long
def test_without_a_dateline_messages_hold_a_ring_and_wait_around_it():
    drawn = {"num_flits": 40, "most_skew": 20, "num_collectives": 1}
    assert verify(around(3, dateline=True)).num_messages == 12
    with pytest.raises(ScheduleError, match=r"close a circle of waiting messages") as refused:
        verify(around(3, dateline=False))
    held = re.findall(r"row \d+ for link (\d+) class (\d)", str(refused.value))
    assert sorted(held) == [("10", "0"), ("6", "0"), ("8", "0")]
    intact, reported = (
        reported_of(around(3, dateline=dateline), NOTHING, **drawn) for dateline in (True, False)
    )
    assert intact == [None] * NUM_SEEDS
    circles = [text.split("; circle of waits: ")[1] for text in reported if text is not None]
    print(f"without the dateline: {len(circles)} of {NUM_SEEDS} runs stand still")
    assert len(circles) >= NUM_SEEDS // 4
    for circle in circles:
        assert circle == (
            "Row 0 (step 0, flow 0, REDUCE 2 -> 1) waits at switch 3 for VC 0 of link 6 (switch 3 "
            "to switch 4), held by Row 1 (step 0, flow 1, REDUCE 0 -> 2), which waits at switch 4 "
            "for VC 0 of link 8 (switch 4 to switch 5), held by Row 2 (step 0, flow 2, REDUCE 1 -> "
            "0), which waits at switch 5 for VC 0 of link 10 (switch 5 to switch 3), held by the "
            "first"
        )
