"""Faults on purpose end in a named fault in bounded time, or change nothing."""

import os

import numpy as np
import pytest

from multitree import DeviceError, torus
from multitree.sim.faults.injection import (
    DeadNode,
    DelayFlit,
    DoubleCredit,
    DropFlit,
    DuplicateFlit,
    FailedMemory,
    FlipBit,
    FlipState,
    FlipWrite,
    FlitField,
    LoseCredit,
    MemoryChannel,
    MuteLink,
    ResetRank,
    StuckMemory,
)
from multitree.sim.rtl.session import RtlSession
from multitree.topology.algorithms.multitree import build_multitree
from tests.emulation import needs_rtl
from tests.refusals import refuses
from tests.sim.emulated import checked

pytestmark = [pytest.mark.slow, needs_rtl]

SEED = int(os.environ.get("MULTITREE_SEED", "1"))
SCHEDULE = build_multitree(torus(4, 4))
BUFFERS = np.random.default_rng(SEED).integers(-99, 99, (16, 2000), dtype=np.int32)
LIMIT_CYCLES = 40_000


def outcome(*faults):
    """The error, or None where every rank's memory is right; and how many faults did not strike."""
    print(f"seed {SEED}")
    text = None
    with RtlSession(SCHEDULE.topology) as session:
        try:
            checked(session, SCHEDULE, [BUFFERS], faults=faults)
        except DeviceError as error:
            text = str(error)
        assert session.network.cycle < LIMIT_CYCLES
        return text, session.network.num_faults_pending()


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        (FlipBit(5, 400, 1, FlitField.PAYLOAD, 77), ["LINK_CHECK", "LENGTH", "UNEXPECTED"]),
        (FlipBit(5, 400, 1, FlitField.KIND, 2), ["LINK_CHECK", "LINK_SEQUENCE"]),
        (FlipBit(5, 400, 1, FlitField.SEQUENCE, 0), ["LINK_SEQUENCE"]),
        (FlipBit(5, 400, 1, FlitField.EPOCH, 0), ["LINK_EPOCH"]),
        (DropFlit(5, 400, 1), ["LINK_SEQUENCE", "WATCHDOG"]),
        (DuplicateFlit(5, 400, 1), ["LINK_SEQUENCE"]),
        (DelayFlit(5, 400, 1, 7), ["LINK_SEQUENCE", "WATCHDOG"]),
        (StuckMemory(5, 400, 1, MemoryChannel.WRITE), ["WATCHDOG", "FIRST_ARRIVAL"]),
        (FailedMemory(5, 400, 1, MemoryChannel.SEND), ["read", "MEMORY_ERROR"]),
        (FailedMemory(5, 400, 1, MemoryChannel.WRITE), ["write", "MEMORY_ERROR"]),
        (DoubleCredit(5, 400, 1), ["CREDIT_OVERFLOW"]),
        (MuteLink(5, 400, 1, 0), ["WATCHDOG", "FIRST_ARRIVAL", "LINK_SEQUENCE"]),
        (MuteLink(5, 400, 1, 100), ["WATCHDOG", "FIRST_ARRIVAL", "LINK_SEQUENCE"]),
        (DeadNode(5, 400), ["WATCHDOG", "FIRST_ARRIVAL"]),
        (ResetRank(5, 400), ["PEER_RESET"]),
        (FlipWrite(5, 2, 9), ["ROW_ILLEGAL", "TABLE_CRC"]),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else value[0],
)
def test_each_kind_of_fault_is_named_in_bounded_time(fault, codes):
    text, pending = outcome(fault)
    assert text is not None and pending == 0
    assert any(code in text for code in codes), text


def test_a_flipped_crc_is_named_where_it_means_something_and_else_changes_nothing():
    texts = [outcome(FlipBit(5, cycle, 1, FlitField.CHECK, 3))[0] for cycle in range(400, 420, 3)]
    assert all(text is None or "LINK_CHECK" in text for text in texts)


def test_a_fault_that_finds_no_flit_changes_nothing():
    assert outcome(DropFlit(5, 30_000, 1)) == (None, 1)


def test_a_credit_of_many_that_is_lost_changes_nothing():
    assert outcome(LoseCredit(5, 400, 1)) == (None, 0)


@pytest.mark.parametrize("fault", [DropFlit(16, 0, 0), DropFlit(0, 0, 4), DeadNode(16, 0)])
def test_a_fault_at_no_port_of_the_network_is_refused(fault):
    refuses(ValueError, "Fault must be at a port of the network, not", outcome, fault)


def test_bits_of_state_flip_only_in_a_library_that_lets_them():
    with pytest.raises(ValueError, match="Fault must be in a library with pokes, not FlipState"):
        outcome(FlipState(0, 0, 0, 0, 0))


def test_a_session_is_as_new_after_a_reset():
    stuck = StuckMemory(6, 300, 1, MemoryChannel.WRITE)
    with RtlSession(SCHEDULE.topology) as session:
        with pytest.raises(DeviceError):
            faults = (DeadNode(5, 300), stuck, DropFlit(9, 10**6, 0))
            session.run(SCHEDULE, [BUFFERS], faults=faults)
        session.reset()
        checked(session, SCHEDULE, [BUFFERS])
        assert session.network.num_faults_pending() == 0


def test_a_fault_before_the_start_is_refused():
    refuses(ValueError, "Cycle must be an int of at least 0, not -1", DropFlit, 0, -1, 0)
