"""Interfaces that sleep, and tables without the bus, change nothing but time."""

import numpy as np
import pytest

from multitree import DeviceError, build, parse_topology
from multitree.sim.emulator.library import expose, interface_verilog, network_library
from multitree.sim.emulator.members import members_header
from multitree.sim.faults.injection import EVERY_ENTRY, FlipState, MemoryChannel, StuckMemory
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import config_for, emulated_dtypes, least_sizes
from tests.emulation import needs_rtl
from tests.sim.emulated import SWITCHED, SWITCHED_SIZES, switched

FORWARDING = LinkModel(forward_flits=64, dependency="submessage")
HEADER = """
        IData/*31:0*/ top__DOT__core__DOT__counters_1__DOT____02421;
        IData/*19:0*/ top__DOT__core__DOT__counters_1__DOT__narrow;
        IData/*31:0*/ top__DOT__core__DOT__watchdog__0241026__DOT____024signal;
        IData/*31:0*/ top__DOT__core__DOT__watchdog_cycles;
        IData/*31:0*/ top__DOT__core__DOT__counts___05F0__024917;
        IData/*31:0*/ top__DOT__status___05F10__024293;
        IData/*31:0*/ top__DOT__core__DOT__fetcher__DOT__left;
        VlUnpacked<VlWide<3>/*77:0*/, 256> top__DOT__core__DOT__tables__DOT__table__DOT__content__DOT__bank_0;
        VlUnpacked<IData/*28:0*/, 512> top__DOT__core__DOT__tracker__DOT__counts_0;
"""  # noqa: E501
PORT = """
        VlUnpacked<VlWide<6>/*163:0*/, 63> __PVT__reducer__DOT__writes__DOT__queue__DOT__rest__DOT__storage;
        VlUnpacked<QData/*34:0*/, 2> __PVT__reducer__DOT__marks__DOT__queue__DOT__storage;
        VlUnpacked<CData/*5:0*/, 256> __PVT__header_check__DOT__scoreboard__DOT__marks_0;
"""  # noqa: E501
OBJECTS = """
    Vnic___024root                 TOP;
    Vnic_top__02eport              TOP__top__DOT__port_0;
    Vnic_top__02eport              TOP__top__DOT__port_1;
    Vnic__Syms(VerilatedContext* contextp, const char* namep, Vnic* modelp);
"""
MODEL = {"Vnic__Syms": OBJECTS, "Vnic___024root": HEADER, "Vnic_top__02eport": PORT}


def test_counters_are_the_words_of_watchdog_ports_and_status():
    _, watchdog, counters, _ = members_header(MODEL, "top").splitlines()
    bites = "X(top__DOT__core__DOT__watchdog__0241026__DOT____024signal)"
    assert watchdog == f"#define MT_WATCHDOG(X) {bites}"
    names = [
        f"X(top__DOT__{name})"
        for name in (
            "core__DOT__counters_1__DOT____02421",
            "core__DOT__counts___05F0__024917",
            "status___05F10__024293",
        )
    ]
    assert counters == f"#define MT_COUNTERS(X) {bites} {' '.join(names)}"


def test_settled_memories_are_tables_and_what_queues_of_three_places_hold():
    settled = members_header(MODEL, "top").splitlines()[-1]
    storage = "__PVT__reducer__DOT__writes__DOT__queue__DOT__rest__DOT__storage"
    assert settled == (
        "#define MT_SETTLED(X) "
        "X(TOP.top__DOT__core__DOT__tables__DOT__table__DOT__content__DOT__bank_0) "
        f"X(TOP__top__DOT__port_0.{storage}) X(TOP__top__DOT__port_1.{storage})"
    )


def outcome(spec, algorithm, sleeps, *, model=None, timing=None, times=1, make=None, **options):
    """All that a run shows, an error included, and how long interfaces slept."""
    topology, model = parse_topology(spec), model or LinkModel()
    schedule = build(topology, algorithm)
    rng = np.random.default_rng(1)
    buffers = rng.integers(-9, 9, (topology.num_ranks, 256)).astype(np.float32)
    sizes = least_sizes(schedule, model.num_flits(256, 4))
    given = {"link_model": model, "memory_timing": timing, "sleeps": sleeps, **sizes}
    if make is not None:
        given |= make(topology, model, sizes)
    with RtlSession(topology, **given) as session:
        try:
            runs = session.run(schedule, [buffers] * times, **options)
        except DeviceError as error:
            found = [str(error)]
        else:
            found = [
                [part.tobytes() for part in (memory, trace.sent, trace.arrived, trace.done)]
                for memory, trace in runs
            ]
        network = session.network
        share = network.cycles_asleep / network.cycle / topology.num_ranks
        return (found, session.counts(), network.cycle, network.irq_cycles().tolist()), share


@pytest.mark.dear
@needs_rtl
@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "algorithm", "least", "options"),
    [
        ("ring:4", "ring", 0.2, {}),
        ("ring:4", "ring", 0.2, {"times": 3, "start_skew_cycles": [0, 700, 31, 4000]}),
        ("ring:4", "ring", 0.1, {"model": LinkModel(memory_read_cycles=40)}),
        ("ring:4", "ring", 0.1, {"timing": MemoryTiming(extra_cycles=9)}),
        ("ring:4", "ring", 0.0, {"timing": MemoryTiming(stall_percent=30)}),
        ("ring:4", "multitree", 0.1, {"lockstep": True}),
        ("torus:4x4", "multitree", 0.1, {"model": LinkModel(dependency="submessage")}),
        ("mesh:2x2", "forest", 0.05, {"model": FORWARDING, "start_skew_cycles": [0, 0, 0, 1500]}),
        ("bigraph:2x2", "direct", 0.0, {"make": lambda topology, *_: switched(topology)}),
        ("ring:4", "ring", 0.5, {"idle_ranks": [2]}),
        ("ring:4", "ring", 0.4, {"faults": [StuckMemory(1, 600, 0, MemoryChannel.WRITE)]}),
    ],
)
def test_a_run_is_the_same_whether_interfaces_sleep_or_not(spec, algorithm, least, options):
    awake, never = outcome(spec, algorithm, False, **options)
    slept, share = outcome(spec, algorithm, True, **options)
    assert slept == awake
    assert never == 0 and share >= least
    # What a fault brings is slept through only where it strikes before the end.
    assert ("WATCHDOG" in str(slept[0][0])) == ("faults" in options)


def with_pokes(topology, model, sizes):
    """Interfaces whose state can be struck."""
    config = config_for(topology, model, **sizes, dtypes=emulated_dtypes("float32"))
    return {"config": config, "library": network_library(config, pokes=True)}


@needs_rtl
@pytest.mark.long
def test_an_interface_that_sleeps_is_woken_where_its_state_is_struck():
    topology, model = parse_topology("ring:4"), LinkModel()
    schedule = build(topology, "ring")
    config = with_pokes(topology, model, least_sizes(schedule, model.num_flits(256, 4)))["config"]
    _, states = expose(interface_verilog(config))
    number = next(k for k, state in enumerate(states) if state.name == "core.tracker.counts_0")
    struck = FlipState(1, 630, number, EVERY_ENTRY, 16, 1)
    awake, _ = outcome("ring:4", "ring", False, make=with_pokes, faults=[struck])
    slept, share = outcome("ring:4", "ring", True, make=with_pokes, faults=[struck])
    assert "STATE_PARITY" in awake[0][0] and slept == awake and share > 0.05


TABLES = """
        CData/*0:0*/ top__DOT__locked__0247;
        CData/*0:0*/ top__DOT__core__DOT__run___05Fbank;
        VlUnpacked<VlWide<7>/*194:0*/, 128> top__DOT__core__DOT__tables__DOT__copy__DOT__content__DOT__bank_0;
        VlUnpacked<VlWide<7>/*194:0*/, 128> top__DOT__core__DOT__tables__DOT__flows__DOT__content__DOT__bank_0;
        VlUnpacked<VlWide<7>/*194:0*/, 128> top__DOT__core__DOT__tables__DOT__flows__DOT__content__DOT__bank_1;
        VlUnpacked<VlWide<3>/*77:0*/, 256> top__DOT__core__DOT__tables__DOT__table__DOT__content__DOT__bank_0;
        VlUnpacked<IData/*28:0*/, 512> top__DOT__core__DOT__tracker__DOT__counts_0;
"""  # noqa: E501


def test_banks_of_table_and_flows_are_named_and_what_says_which_can_be_written():
    model = {"Vnic__Syms": "", "Vnic___024root": TABLES}
    lines = dict(line.split(" ", 2)[1:] for line in members_header(model, "top").splitlines()[1:])
    start, end = "top__DOT__core__DOT__tables__DOT__", "__DOT__content__DOT__bank_"
    assert lines["MT_TABLE_BANKS(X)"] == f"X({start}table{end})"
    assert lines["MT_FLOW_BANKS(X)"] == f"X({start}copy{end}) X({start}flows{end})"
    assert lines["MT_BANK"] == "top__DOT__core__DOT__run___05Fbank"
    assert lines["MT_LOCKED"] == "top__DOT__locked__0247"


def test_a_model_without_tables_has_no_backdoor():
    model = {"Vnic__Syms": "", "Vnic___024root": "IData/*31:0*/ counter;"}
    assert "MT_BANK" not in members_header(model, "top")


def loaded(spec, algorithm, backdoor, model):
    """Traces, memories and counters of two collectives with different tables, and loading."""
    topology = parse_topology(spec)
    first, second = build(topology, algorithm), build(topology, "ring")
    rng = np.random.default_rng(1)
    buffers = rng.integers(-9, 9, (topology.num_ranks, 512)).astype(np.float32)
    sizes = [least_sizes(each, model.num_flits(512, 4)) for each in (first, second)]
    sizes += [SWITCHED_SIZES] * (model is SWITCHED)
    sizes = {key: max(size.get(key, 0) for size in sizes) for key in sizes[0]}
    found, loading_cycles = [], 0
    with RtlSession(topology, link_model=model, backdoor=backdoor, **sizes) as session:
        for schedule, following in ((first, second), (second, None)):
            then = Upcoming(following, 512, "float32") if following else None
            memory, trace = session.run(schedule, [buffers], then=then)[0]
            found.append([memory.tobytes(), trace.sent.tobytes(), trace.arrived.tobytes()])
            # The second table is loaded while the first one runs.
            loading_cycles = max(loading_cycles, session.loading_cycles)
        return found, session.counts(), loading_cycles


@needs_rtl
@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "algorithm", "model"),
    [
        ("torus:2x3", "multitree", LinkModel()),
        pytest.param("mesh:2x2", "multitree", FORWARDING, marks=pytest.mark.long),
        ("fat_tree:2x2", "multitree", SWITCHED),
    ],
)
def test_a_run_is_the_same_with_tables_through_the_backdoor(spec, algorithm, model):
    by_bus = loaded(spec, algorithm, False, model)
    directly = loaded(spec, algorithm, True, model)
    assert directly[:2] == by_bus[:2]
    # These tables are at least a third of what is written.
    assert 3 * directly[2] < 2 * by_bus[2]
