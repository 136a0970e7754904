"""Bounds on runs, sizes of interfaces, and traces made of the messages seen."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from multitree import DeviceError, TopologyError, build, parse_topology
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import compile_table
from multitree.sim.analytic.engine import analytic
from multitree.sim.emulator.native import EVENT
from multitree.sim.faults.diagnosis import first_missing
from multitree.sim.timing.limits import limits_of
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import beyond_interfaces, config_for, least_sizes
from multitree.sim.timing.trace import trace_of, turns_of
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.algorithms.registry import COMPARED
from multitree.topology.checks.verify import termination_cycles
from multitree.topology.families.direct import fully_connected, ring, torus
from tests.topology.graphs import by_hand


def limits(schedule, num_flits, model=None, timing=None, *, skew=0, lockstep=False):
    return limits_of(
        schedule,
        num_flits,
        model or LinkModel(),
        memory_timing=timing or MemoryTiming(),
        queue_flits=64,
        max_skew_cycles=skew,
        lockstep=lockstep,
    )


@pytest.mark.parametrize("spec", ["ring:2", "torus:4x4", "mesh:4x4", "full:6", "torus:8x8"])
@pytest.mark.parametrize("algorithm", COMPARED)
def test_no_run_comes_near_its_bound(spec, algorithm):
    schedule = build(parse_topology(spec), algorithm)
    for model in (LinkModel(), LinkModel(buffer_flits=32), LinkModel(memory_read_cycles=100)):
        for num_flits in (0, 100, 10_000):
            cycles = analytic(schedule, num_flits, model).cycles
            assert cycles < limits(schedule, num_flits, model).collective_cycles


def test_bounds_grow_with_all_that_costs_time():
    schedule = build_multitree(torus(4, 4))
    base = limits(schedule, 1000)
    assert limits(schedule, 1000, skew=10_000).collective_cycles == base.collective_cycles + 10_000
    for larger in (
        limits(schedule, 2000),
        limits(schedule, 1000, LinkModel(memory_read_cycles=200)),
        limits(schedule, 1000, LinkModel(buffer_flits=8)),
        limits(schedule, 1000, timing=MemoryTiming(extra_cycles=100)),
        limits(schedule, 1000, timing=MemoryTiming(stall_percent=80)),
        limits(schedule, 1000, lockstep=True),
    ):
        assert larger.collective_cycles > base.collective_cycles
    assert base.watchdog_cycles >= base.collective_cycles
    assert base.run_cycles(5) > 5 * base.collective_cycles + base.watchdog_cycles
    chunk = 1000 // 16 + 1
    assert limits(schedule, 1000, lockstep=True).step_cycles == chunk + 1 + 150


@pytest.mark.parametrize(
    ("model", "timing", "message", "flit"),
    [
        ({}, {}, 4 + 4 + 128, 3),  # memory: 136 cycles for 64 flits
        ({"flow_control": "packet"}, {}, 136, 3 * 2),
        ({}, {"stall_percent": 1}, 136 * 2, 3 * 2),
        ({}, {"stall_percent": 75}, 136 * 5, 3 * 5),
        ({"flow_control": "packet"}, {"stall_percent": 75}, 136 * 5, 3 * 5 * 2),
        ({"memory_read_cycles": 60}, {}, 192, 3),
        ({"memory_write_cycles": 70}, {}, 202, 4),
        ({}, {"extra_cycles": 100}, 336, 6),
        ({"buffer_flits": 109}, {}, 136, 4),  # credits: 2 x 150 + 136 cycles for 109 flits
        ({"buffer_flits": 8}, {}, 136, 55),
        ({"clock_ghz": 8.0, "buffer_flits": 4096}, {}, 136, 8),  # the link: 2 GB for each cycle
    ],
    ids=str,
)
def test_a_bound_is_what_its_slowest_part_takes_of_each_flit_and_message(
    model, timing, message, flit
):
    schedule, model = build_multitree(torus(4, 4)), LinkModel(**model)
    expected = termination_cycles(
        schedule,
        num_flits=1000,
        latency_cycles=150 * int(model.clock_ghz),
        overhead_cycles=message,
        cycles_per_flit=flit,
    )
    found = limits(schedule, 1000, model, MemoryTiming(**timing))
    assert found.collective_cycles == found.watchdog_cycles == expected + 512
    assert found.run_cycles(3) == 3 * (expected + 1024) + 2 * (expected + 512) + 512


def test_lockstep_adds_the_estimated_step_to_each_and_no_watchdog_is_above_32_bits():
    schedule = build_multitree(torus(4, 4))
    free, lockstep = (limits(schedule, 1000, lockstep=mode) for mode in (False, True))
    assert free.step_cycles is None
    longer = schedule.num_steps * lockstep.step_cycles
    assert lockstep.collective_cycles == free.collective_cycles + longer
    far = limits(schedule, 1000, skew=2**33)
    assert (far.watchdog_cycles, far.collective_cycles > 2**33) == (2**32 - 1, True)


def test_interfaces_are_rounded_up_so_that_few_are_compiled():
    assert config_for(torus(4, 4), LinkModel()) == Config(num_ports=4)
    assert config_for(ring(2), LinkModel()).num_ports == 2
    assert config_for(fully_connected(6), LinkModel()).num_ports == 8
    model = LinkModel(flit_bytes=32, buffer_flits=100, submessage_flits=8, memory_read_cycles=100)
    config = config_for(torus(4, 4), model, num_rows=257, num_flows=129, memory_flits=(1 << 24) + 1)
    assert (config.table_depth, config.num_flows, config.address_width) == (512, 256, 25)
    assert (config.flit_bytes, config.buffer_flits, config.submessage_flits) == (32, 100, 8)
    assert config.memory_queue_flits == 128
    with pytest.raises(TopologyError, match="a rank has 9 links, an interface at most 8 ports"):
        config_for(fully_connected(10), LinkModel())


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"extra_cycles": -1}, "extra_cycles must be in 0..1048576, not -1"),
        ({"stall_percent": 100}, "stall_percent must be in 0..99, not 100"),
        ({"seed": -5}, "seed must be in 0.."),
    ],
)
def test_memory_timing_out_of_range_is_refused(settings, text):
    with pytest.raises(ValueError, match=f"MemoryTiming {text}"):
        MemoryTiming(**settings)


def messages(*rows):
    events = np.zeros(len(rows), dtype=EVENT)
    for event, (cycle, rank, port, op, flow, payload) in zip(events, rows, strict=True):
        event["cycle"], event["rank"], event["port"] = cycle, rank, port
        event["op"], event["flow"], event["num_payload"] = op, flow, payload
    return events


def arrivals(sent):
    """All of some messages between two ranks, nine cycles after they were sent."""
    return [(cycle + 9, 1 - rank, *what, 0) for cycle, rank, *what, _ in sent]


REDUCES = [(10, 0, 0, 0, 1, 4), (12, 1, 0, 0, 0, 3)]
GATHERS = [(30, 0, 0, 1, 0, 3), (33, 1, 0, 1, 1, 4)]


def test_a_trace_finds_each_transfer_of_each_collective_among_the_messages():
    schedule = build_multitree(ring(2))
    sent = REDUCES + GATHERS
    sent += [(cycle + 100, *rest) for cycle, *rest in sent]
    start, done = np.array([[2, 3], [90, 90]]), np.array([[50, 60], [150, 160]])
    turns = turns_of([schedule] * 2, messages(*sent), messages(*arrivals(sent)))
    one, two = (
        trace_of(schedule, schedule, 7, *each) for each in zip(turns, start, done, strict=True)
    )
    assert schedule.src.tolist() == [1, 0, 0, 1] and schedule.flow.tolist() == [0, 1, 0, 1]
    assert one.sent.tolist() == [[10, 8, 28, 31]] and one.arrived.tolist() == [[19, 17, 37, 40]]
    assert two.sent.tolist() == [[22, 20, 40, 43]] and two.cycles == 70
    assert one.link_flits.tolist() == [7, 7] and one.start.tolist() == [0, 1]


def test_messages_that_are_not_the_schedule_s_are_an_error():
    schedule = build_multitree(ring(2))
    none = messages()
    with pytest.raises(DeviceError, match="must send the 4 messages of the schedule, not 0 others"):
        trace_of(schedule, schedule, 7, (none, none), np.zeros(2, int), np.ones(2, int))


def missing(sent, came, **waves):
    """What is said of an all-reduce of two ranks of whose messages some have come in."""
    schedule = replace(build_multitree(ring(2)), **waves)
    return first_missing([schedule], messages(*sent), messages(*arrivals(came)))


def test_the_first_missing_message_is_the_one_that_others_wait_for():
    assert missing([], []).startswith("Row 0") and "was not sent, although" in missing([], [])
    assert missing(REDUCES[:1], REDUCES[:1]).startswith("Row 0")
    assert missing(REDUCES[1:], REDUCES[1:]).startswith("Row 1")
    # Row 2 waits for row 0, which is on its way: only the latter can be to blame.
    assert missing(REDUCES, []).startswith("Row 0") and "is not complete" in missing(REDUCES, [])
    assert missing(REDUCES, REDUCES).startswith("Row 2")
    assert missing(REDUCES + GATHERS[:1], REDUCES).startswith("Row 3")
    assert missing(REDUCES + GATHERS, REDUCES + GATHERS) == ""


def test_of_several_waves_the_first_missing_one_is_named():
    """Steps 0 and 1, two waves one step apart: the second REDUCE goes with the first GATHER."""
    of_two = partial(missing, num_waves=2, period=1)
    assert " of wave 0 was not sent" in of_two([], [])
    assert of_two(REDUCES, REDUCES).startswith("Row 0")
    assert " of wave 1 was not sent" in of_two(REDUCES, REDUCES)
    both, wave = 2 * REDUCES + GATHERS, REDUCES + GATHERS
    assert of_two(both, wave).startswith("Row 0")
    assert of_two(both, wave).endswith("of wave 1 was sent, and is not complete")
    assert of_two(both, both).startswith("Row 2") and " of wave 1 was not" in of_two(both, both)
    assert of_two(both + GATHERS, both).endswith("of wave 1 was sent, and is not complete")
    assert of_two(both + GATHERS, both + GATHERS) == ""
    for sent in (REDUCES, both):
        assert of_two(sent, REDUCES, period=2).startswith("Row 2"), "before wave 1 of row 0"


@pytest.mark.parametrize(
    ("spec", "algorithm"), [("mesh:2x3", "multitree"), ("fat_tree:2x3", "double_tree")]
)
def test_in_lockstep_tables_have_a_row_for_each_step_that_sends_nothing(spec, algorithm):
    schedule = build(parse_topology(spec), algorithm)
    idle, rows = (least_sizes(schedule, 60, lockstep=on)["num_rows"] for on in (True, False))
    config = config_for(schedule.topology, LinkModel(), **least_sizes(schedule, 60))
    tables = [
        [len(compile_table(schedule, rank, 60, config, lockstep=on).op) for rank in range(6)]
        for on in (True, False)
    ]
    assert (idle, rows) == (max(tables[0]), max(tables[1])) and idle > rows


def test_waves_that_no_interface_repeats_a_table_for_are_reported():
    sizes = least_sizes(replace(build_multitree(ring(4)), num_waves=9, period=9), 100)
    schedule = build_multitree(ring(4))
    assert beyond_interfaces(schedule, sizes) is None
    for change, limit in (
        ({"memory_flits": (1 << 32) - 1}, 8),
        ({"num_classes": 1}, 1),
        ({"num_waves": 3000}, 2048),
    ):
        says = f"waves must be at most {limit}, not {(sizes | change)['num_waves']}"
        assert beyond_interfaces(schedule, sizes | change) == says


def test_rows_on_shared_links_are_limited_by_the_routes_that_the_bus_has_room_for():
    schedule = build_multitree(ring(4))
    sizes = least_sizes(schedule, 100) | {"num_rows": 16385}
    assert beyond_interfaces(schedule, sizes) is None
    says = "rows must be at most 16384, not 16385"
    assert beyond_interfaces(schedule, sizes | {"num_classes": 1}) == says


def test_a_message_behind_one_that_waits_is_not_to_blame():
    """What rank 1 waits for is on its way; the next on its link could go, were it the first."""
    rows = [[0, 0, 0, 0, 1], [1, 1, 0, 1, 0], [2, 1, 1, 1, 0]]
    schedule = by_hand(ring(2), rows)
    text = first_missing([schedule], messages((5, 0, 0, 0, 0, 4)), messages())
    assert text.startswith("Row 0") and text.endswith("was sent, and is not complete")
