"""Interfaces that sleep change nothing but the time that emulation takes."""

import numpy as np
import pytest

from multitree.nic.faults import DeviceError
from multitree.sim.emulator.members import members_header
from multitree.sim.emulator.verilator import why_not
from multitree.sim.faults.injection import MemoryChannel, StuckMemory
from multitree.sim.link_model import LinkModel, MemoryTiming
from multitree.sim.rtl.session import RtlSession
from multitree.sim.sizing import least_sizes
from multitree.topology.algorithms.build import build
from multitree.topology.specs import parse_topology

FORWARDING = LinkModel(forward_flits=64, dependency="submessage")
HEADER = """
        IData/*31:0*/ top__DOT__core__DOT__counters_1__DOT____02421;
        IData/*19:0*/ top__DOT__core__DOT__counters_1__DOT__narrow;
        IData/*31:0*/ top__DOT__core__DOT__watchdog__0241026__DOT____024signal;
        IData/*31:0*/ top__DOT__core__DOT__watchdog_cycles;
        IData/*31:0*/ top__DOT__core__DOT__counts___05F0__024917;
        IData/*31:0*/ top__DOT__status___05F10__024293;
        IData/*31:0*/ top__DOT__core__DOT__fetcher__DOT__left;
"""


def test_counters_are_the_words_of_watchdog_ports_and_status():
    _, watchdog, counters = members_header(HEADER, "top").splitlines()
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


def outcome(spec, algorithm, sleeps, *, n=256, model=None, timing=None, times=1, **options):
    """All that a run shows, an error included, and how long interfaces slept."""
    topology, model = parse_topology(spec), model or LinkModel()
    schedule = build(topology, algorithm)
    rng = np.random.default_rng(1)
    buffers = rng.integers(-9, 9, (topology.num_ranks, n)).astype(np.float32)
    sizes = least_sizes(schedule, model.num_flits(n, 4))
    given = {"link_model": model, "memory_timing": timing, "sleeps": sleeps, **sizes}
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


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "algorithm", "least", "options"),
    [
        ("ring:4", "ring", 0.2, {}),
        ("ring:4", "ring", 0.2, {"times": 3, "start_skew_cycles": [0, 700, 31, 4000]}),
        ("ring:4", "ring", 0.1, {"model": LinkModel(memory_read_cycles=90)}),
        ("ring:4", "ring", 0.1, {"timing": MemoryTiming(extra_cycles=9)}),
        ("ring:4", "ring", 0.0, {"timing": MemoryTiming(stall_percent=30)}),
        ("ring:4", "multitree", 0.1, {"lockstep": True}),
        ("torus:4x4", "multitree", 0.1, {"model": LinkModel(dependency="submessage")}),
        (
            "mesh:2x2",
            "forest",
            0.05,
            {"model": LinkModel(forward_flits=64, dependency="submessage")},
        ),
        ("bigraph:2x2", "direct", 0.0, {}),
        ("ring:4", "ring", 0.5, {"idle_ranks": [2]}),
        ("ring:4", "ring", 0.4, {"faults": [StuckMemory(1, 5000, 0, MemoryChannel.WRITE)]}),
    ],
)
def test_a_run_is_the_same_whether_interfaces_sleep_or_not(spec, algorithm, least, options):
    awake, never = outcome(spec, algorithm, False, **options)
    slept, share = outcome(spec, algorithm, True, **options)
    assert slept == awake
    assert never == 0 and share >= least
