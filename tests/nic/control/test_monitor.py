"""Tests of watchdog and fault monitor: limits to the cycle, the first fault stays."""

import itertools
from dataclasses import replace
from functools import cache

import pytest

from multitree.nic.control.monitor import FaultMonitor, Watchdog
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.formats import NO_PORT, UNKNOWN
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL, plain

PORTS = SMALL.num_ports
NOWHERE = {"op": 0, "port": NO_PORT, "at_port": NO_PORT, "row": UNKNOWN, "flow": UNKNOWN}


@simulation_of(lambda: Watchdog())
async def watch(ctx, block, stimulus, **limits):
    """The first cycle of a running collective with a code, and the code."""
    put(ctx, block, **{"watchdog_cycles": 10, "first_arrival_cycles": 25} | limits)
    for cycle in range(100):
        put(ctx, block, **{"running": 1, "progress": 0, "arrived": 0} | stimulus(cycle))
        _, _, code = await ctx.tick().sample(block.code)
        if code:
            return cycle, code
    return None


@pytest.mark.parametrize("limit", [1, 2, 25, 60])
def test_the_first_arrival_has_its_own_limit_to_the_cycle(limit):
    found = watch(lambda cycle: {}, first_arrival_cycles=limit)
    assert found == (limit, FaultCode.FIRST_ARRIVAL)


@pytest.mark.parametrize("limit", [1, 2, 10, 60])
@pytest.mark.parametrize("last", [0, 7])
def test_after_an_arrival_the_watchdogs_limit_counts_from_the_last_progress(limit, last):
    def stimulus(cycle):
        return {"arrived": cycle == 0, "progress": cycle <= last}

    assert watch(stimulus, watchdog_cycles=limit) == (last + 1 + limit, FaultCode.WATCHDOG)


def test_progress_in_time_is_no_fault_and_one_cycle_later_it_is():
    for period, fault in ((10, None), (11, FaultCode.WATCHDOG)):
        found = watch(lambda c, p=period: {"arrived": c == 0, "progress": c % p == 0})
        assert (found and found[1]) == fault
    for period, fault in ((25, None), (26, FaultCode.FIRST_ARRIVAL)):
        found = watch(lambda c, p=period: {"progress": c % p == 0})
        assert (found and found[1]) == fault


def test_a_limit_of_zero_is_none():
    assert watch(lambda c: {"arrived": c == 0}, watchdog_cycles=0) is None
    assert watch(lambda c: {}, first_arrival_cycles=0) is None
    late = watch(lambda c: {"arrived": c == 30, "progress": c == 30}, first_arrival_cycles=0)
    assert late == (41, FaultCode.WATCHDOG)


def test_a_collective_that_does_not_run_has_no_watchdog_and_the_next_one_starts_anew():
    assert watch(lambda c: {"running": 0}) is None
    assert watch(lambda c: {"running": c % 20 != 19}) is None
    # What came in before was the last collective's.
    found = watch(lambda c: {"running": c != 5, "arrived": c == 0})
    assert found == (6 + 25, FaultCode.FIRST_ARRIVAL)


@simulation_of(cache(lambda config=SMALL: FaultMonitor(config)))
async def latch(ctx, block, *cycles):
    """What the monitor holds after cycles of inputs; what waits first has waited for a cycle."""
    before = {"waits": cycles[0].get("waits", {})}
    for values in [before, *cycles, {}]:
        put(ctx, block, **{"control": 0, "table": 0, "table_index": 0, "watchdog": 0})
        for port in range(PORTS):
            ctx.set(block.ports[port], 0)
        for name, value in values.items():
            if name.startswith("ports"):
                for port, code in value.items():
                    ctx.set(getattr(block, name)[port], code)
            elif name == "waits":
                for index, fields in value.items():
                    put(ctx, block.waits[index], **fields)
            else:
                ctx.set(getattr(block, name), value)
        await ctx.tick()
    held = plain(ctx.get(block.fault)) | {"faulted": ctx.get(block.faulted)}
    if block.config.wave_width:
        held["wave"] = ctx.get(block.wave)
    del held["reserved"]
    return held


def expected(code, **fields):
    faulted = {"faulted": 1, "code": code, "awaited": Awaited.NOTHING}
    return NOWHERE | faulted | fields


STUCK = {"awaited": Awaited.DEPENDENCY, "row": 3, "flow": 4, "port": 2, "op": 1}
CUT = {"awaited": Awaited.FLIT, "row": 9, "flow": 5, "port": 1, "op": 0}
LINKS = {FaultCode.LINK_SEQUENCE, FaultCode.BUFFER_OVERFLOW, FaultCode.CREDIT_OVERFLOW}
SOURCES = {
    "control": {"control": FaultCode.NOT_COMMITTED},
    "table": {"table": FaultCode.ROW_ILLEGAL, "table_index": 7},
    "port 0": {"ports": {0: FaultCode.FRAMING}},
    "port 2": {"ports": {2: FaultCode.UNEXPECTED_MESSAGE}},
    "watchdog": {"watchdog": FaultCode.WATCHDOG},
}
"""In the order of precedence."""
WAITS = {"waits": {1: STUCK, PORTS: CUT, PORTS + 2: CUT | {"flow": 2}}}
REPORTS = {
    "control": expected(FaultCode.NOT_COMMITTED),
    "table": expected(FaultCode.ROW_ILLEGAL, row=7),
    "port 0": expected(FaultCode.FRAMING, at_port=0, flow=5),
    "port 2": expected(FaultCode.UNEXPECTED_MESSAGE, at_port=2, flow=2),
    "watchdog": expected(FaultCode.WATCHDOG, at_port=1, **STUCK),
}


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_alone_is_named_with_all_that_is_known(source):
    assert latch(WAITS | SOURCES[source]) == REPORTS[source]


def test_without_a_source_there_is_no_fault():
    assert latch(WAITS)["faulted"] == 0


@pytest.mark.parametrize("sources", list(itertools.combinations(SOURCES, 2)), ids=" and ".join)
def test_of_two_in_one_cycle_the_more_precise_is_named_and_nothing_of_the_other(sources):
    first, second = sources
    ports = {**SOURCES[second].get("ports", {}), **SOURCES[first].get("ports", {})}
    both = WAITS | SOURCES[second] | SOURCES[first] | ({"ports": ports} if ports else {})
    assert latch(both) == REPORTS[first]


def test_the_first_fault_stays_whatever_comes_later():
    rng = seeded(3)
    for _ in range(8):
        first, *later = rng.choices(list(SOURCES), k=5)
        cycles = [WAITS | SOURCES[source] for source in (first, *later)]
        assert latch(WAITS, {}, *cycles) == REPORTS[first]


@pytest.mark.parametrize("code", [FaultCode.FLOW_ILLEGAL, FaultCode.TABLE_PARITY])
def test_what_is_wrong_with_a_flow_is_named_as_a_flow_and_with_a_row_as_a_row(code):
    flow = latch({"table": code, "table_index": 5, "table_of_flow": 1})
    assert flow == expected(code, flow=5)
    row = latch({"table": code, "table_index": 5})
    assert row == expected(code, row=5)


OF_A_MESSAGE = [
    *(FaultCode.FRAMING, FaultCode.UNEXPECTED_MESSAGE, FaultCode.STALE_SEQUENCE),
    *(FaultCode.TABLE_PARITY, FaultCode.DUPLICATE_MESSAGE, FaultCode.LENGTH),
]


@pytest.mark.parametrize("code", OF_A_MESSAGE)
def test_what_is_wrong_with_a_message_or_its_entry_is_named_with_its_flow(code):
    assert latch(WAITS | {"ports": {0: code}}) == expected(code, at_port=0, flow=5)


@pytest.mark.parametrize("code", sorted(LINKS))
def test_a_fault_of_a_link_concerns_no_flow(code):
    assert latch(WAITS | {"ports": {0: code}}) == expected(code, at_port=0)


@pytest.mark.parametrize("kind", [Awaited.MEMORY_READ, Awaited.MEMORY_WRITE])
@pytest.mark.parametrize("code", [FaultCode.MEMORY_ERROR, FaultCode.OUT_OF_WINDOW])
def test_a_fault_of_memory_names_its_port_and_whether_it_was_a_read_or_a_write(code, kind):
    seen = latch(WAITS | {"ports": {1: code}, "ports_awaited": {1: kind}})
    assert seen == expected(code, at_port=1, awaited=kind)


WAVES = {
    "waits": {index: fields | {"wave": 0x9000 + index} for index, fields in WAITS["waits"].items()}
}
KNOWN = 1 << 16


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize(
    ("source", "wave"),
    [
        ("control", 0),
        ("table", 0),
        ("port 0", KNOWN | 0x9000 + PORTS),
        ("port 2", KNOWN | 0x9000 + PORTS + 2),
        ("watchdog", KNOWN | 0x9001),
    ],
)
def test_where_tables_are_repeated_the_wave_that_waits_or_whose_message_is_wrong_is_named(
    source, wave, width
):
    config = replace(SMALL, wave_width=width)
    others = [SOURCES[name] for name in list(SOURCES)[list(SOURCES).index(source) + 1 :]]
    for other in ({}, *others):
        ports = {**other.get("ports", {}), **SOURCES[source].get("ports", {})}
        both = WAVES | other | SOURCES[source] | ({"ports": ports} if ports else {})
        seen = latch(both, WAVES | SOURCES["port 0"], config=config)
        assert seen == REPORTS[source] | {"wave": wave}
    assert "wave" not in latch(WAITS | SOURCES[source])


def test_no_wave_is_named_where_no_flow_is_or_only_arrivals_are_missing():
    config = replace(SMALL, wave_width=4)
    nobody = latch(SOURCES["watchdog"], config=config)
    assert nobody == expected(FaultCode.WATCHDOG, awaited=Awaited.ARRIVALS, wave=0)
    for code, flow in ((FaultCode.LINK_SEQUENCE, 5), (FaultCode.FRAMING, UNKNOWN)):
        waits = {"waits": {PORTS: {"flow": flow, "wave": 3}}}
        assert latch(waits | {"ports": {0: code}}, config=config)["wave"] < KNOWN


def test_the_watchdog_names_the_lowest_sender_then_the_lowest_receiver_then_arrivals():
    watchdog = SOURCES["watchdog"]
    senders = {"waits": {2: STUCK, 1: STUCK | {"row": 8}}}
    assert latch(senders | watchdog) == expected(
        FaultCode.WATCHDOG, at_port=1, **STUCK | {"row": 8}
    )
    receivers = {"waits": {PORTS + 2: CUT, PORTS + 1: CUT | {"flow": 1}}}
    cut = CUT | {"row": UNKNOWN, "flow": 1}
    assert latch(receivers | watchdog) == expected(FaultCode.WATCHDOG, at_port=1, **cut)
    nobody = expected(FaultCode.WATCHDOG, awaited=Awaited.ARRIVALS)
    assert latch(watchdog) == nobody
