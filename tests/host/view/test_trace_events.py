"""Trace events keep to their format, and say what the trace says."""

import gzip
import itertools
import json
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

from multitree import LinkModel, build, parse_topology
from multitree.host.runner import Runner
from multitree.host.view.trace_events import (
    TraceEvents,
    lanes_of_slices,
    last_awaited,
    write_trace_events,
)
from multitree.sim.analytic.engine import analytic
from multitree.topology.collectives import Op
from tests.emulation import needs_rtl

MODEL = LinkModel()
CASES = [
    ("torus:4x4", "multitree", "chunk"),
    ("fat_tree:4x4", "multitree", "chunk"),
    ("mesh:3x3", "forest", "chunk"),
    ("torus:3x3", "multitree", "submessage"),
    ("dgx2", "multitree", "chunk"),
]
MUST_HAVE = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "s": {"name", "cat", "pid", "tid", "ts", "id"},
    "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
}
"""Keys of each phase in "Trace Event Format"; all events have `ph` in addition."""


def traced(spec, algorithm="multitree", dependency="chunk", size_bytes=16 << 10):
    model = replace(MODEL, dependency=dependency)
    schedule = build(parse_topology(spec), algorithm)
    return analytic(schedule, model.num_flits(size_bytes, 1), model)


def nanoseconds(microseconds):
    """As a reader has it that cuts off what is below a nanosecond, as Perfetto does."""
    return int(microseconds * 1000)


def slices(events, category):
    return [event for event in events if event["ph"] == "X" and event["cat"] == category]


def span(event):
    begin = nanoseconds(event["ts"])
    return begin, begin + nanoseconds(event["dur"])


def check_format(events):
    """Raise unless every event has the keys of its phase, names come first, and time goes on."""
    for event in events:
        assert set(event) == MUST_HAVE[event["ph"]] | {"ph"}
        assert event["pid"] > 0 and event["tid"] > 0 and isinstance(event["name"], str)
    named = [event["ph"] == "M" for event in events]
    assert named == sorted(named, reverse=True)
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times) and min(times, default=0) >= 0
    threads = {(event["tid"], event["pid"]) for event in events}
    assert len(threads) == len({thread for thread, _ in threads})


def check_slices(events):
    """Raise unless slices of one thread follow each other, and every thread has a name."""
    named = {e["tid"] for e in events if e["name"] == "thread_name"}
    by_thread = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_thread[event["tid"]].append(span(event))
    assert set(by_thread) <= named
    for spans in by_thread.values():
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(sorted(spans)))


def arrows(events):
    """Both ends of each arrow, events and their slices: in order, within slices that have begun."""
    open_slice, begun, found = {}, {}, []
    for event in events:
        if event["ph"] == "X":
            open_slice[event["tid"]] = event
        elif event["ph"] in "sf":
            end = event, open_slice[event["tid"]]
            first, last = span(end[1])
            assert first <= nanoseconds(event["ts"]) < max(last, first + 1)
            if event["ph"] == "s":
                assert event["id"] not in begun
                begun[event["id"]] = end
            else:
                assert event["bp"] == "e"
                found.append((begun.pop(event["id"]), end))
    assert not begun
    return found


def check(events):
    check_format(events)
    check_slices(events)
    arrows(events)


@pytest.mark.every_set
@pytest.mark.parametrize(("spec", "algorithm", "dependency"), CASES)
@pytest.mark.parametrize("window", [(0, None), (300, 900)], ids=["all", "window"])
def test_events_keep_to_the_format(spec, algorithm, dependency, window):
    check(list(TraceEvents(traced(spec, algorithm, dependency), *window)))


@pytest.mark.parametrize(("spec", "algorithm", "dependency"), CASES)
def test_each_message_is_a_slice_at_both_ends(spec, algorithm, dependency):
    trace = traced(spec, algorithm, dependency)
    schedule, events = trace.schedule, list(TraceEvents(trace))
    flits = np.diff(schedule.chunks(trace.num_flits))
    rows = [getattr(schedule, name).tolist() for name in ("op", "flow", "src", "dst", "step")]
    expected = Counter(
        (int(sent), int(arrived), Op(op).name, flow, wave, src, dst, int(flits[flow]), step)
        for wave in range(schedule.num_waves)
        for sent, arrived, op, flow, src, dst, step in zip(
            trace.sent[wave], trace.arrived[wave], *rows, strict=True
        )
    )
    for category, end in (("send", "src"), ("receive", "dst")):
        found = slices(events, category)
        keys = ("op", "flow", "wave", "src", "dst", "flits", "step")
        said = [(*span(event), *(event["args"][key] for key in keys)) for event in found]
        assert expected == Counter(said)
        for event in found:
            assert event["pid"] == event["args"][end] + 1
            assert event["name"] == f"{event['args']['op']} {event['args']['flow']}"
            assert span(event) == (event["args"]["sent_cycle"], event["args"]["arrived_cycle"])


def test_threads_are_ports_and_processes_are_ranks():
    trace = traced("torus:4x4")
    topology, events = trace.schedule.topology, list(TraceEvents(trace))
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {rank + 1: f"rank {rank}" for rank in range(16)}
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    for category, (here, there), way in (
        ("send", ("src", "dst"), "to"),
        ("receive", ("dst", "src"), "from"),
    ):
        for event in slices(events, category):
            ends = event["args"][here], event["args"][there]
            (link,) = np.flatnonzero((topology.links == ends).all(axis=1))
            port = f"port {topology.link_ports[link]} {way} {ends[1]}"
            assert threads[event["tid"]].split(", lane")[0] == port


def test_a_slice_per_rank_is_its_collective():
    trace = traced("ring:5", "ring")
    found = slices(list(TraceEvents(trace)), "collective")
    assert [span(event) for event in found] == list(zip(trace.start, trace.done, strict=True))
    assert {event["name"] for event in found} == {"all_reduce"}


def awaited_by(trace, wave, row):
    """What a message waits for, out of the rule of a schedule."""
    schedule = trace.schedule
    before = (schedule.flow == schedule.flow[row]) & (schedule.step < schedule.step[row])
    rows = np.flatnonzero(before & (schedule.dst == schedule.src[row]))
    return trace.arrived[wave][rows].max() if len(rows) else None


@pytest.mark.parametrize(("spec", "algorithm", "dependency"), CASES)
def test_the_last_arrival_that_a_message_waits_for_is_found(spec, algorithm, dependency):
    trace = traced(spec, algorithm, dependency)
    last = last_awaited(trace)
    for wave in range(min(trace.schedule.num_waves, 3)):
        for row in range(trace.schedule.num_transfers):
            found = last[wave, row]
            time = None if found < 0 else trace.arrived[wave, found]
            assert time == awaited_by(trace, wave, row)
            assert found < 0 or trace.schedule.dst[found] == trace.schedule.src[row]


def test_arrows_lead_from_the_awaited_arrival_to_the_message():
    trace = traced("torus:4x4")
    events = list(TraceEvents(trace))
    found = set()
    for (left, source), (_, target) in arrows(events):
        found.add((left["cat"], key_of(source), key_of(target)))
        if left["cat"] == "dependency":
            assert nanoseconds(left["ts"]) == span(source)[1] - 1
    columns = (trace.schedule.op, trace.schedule.flow, trace.schedule.src, trace.schedule.dst)
    named = [(Op(op).name, *rest) for op, *rest in zip(*(c.tolist() for c in columns), strict=True)]
    messages = {("message", ("send", *name), ("receive", *name)) for name in named}
    waits = {
        ("dependency", ("receive", *named[awaited]), ("send", *named[row]))
        for row, awaited in enumerate(last_awaited(trace)[0].tolist())
        if awaited >= 0
    }
    assert found == messages | waits and len(waits) > 200


def key_of(event):
    return (event["cat"], *(event["args"][name] for name in ("op", "flow", "src", "dst")))


@pytest.mark.parametrize("dependency", ["chunk", "submessage"])
def test_a_window_cuts_slices_and_leaves_out_what_is_outside(dependency):
    trace, (first, last) = traced("torus:4x4", dependency=dependency), (400, 700)
    events = list(TraceEvents(trace, first, last))
    inside = (trace.sent < last) & (trace.arrived > first)
    assert 0 < inside.sum() < inside.size
    found = slices(events, "send")
    assert len(found) == inside.sum()
    for event in found:
        sent, arrived = event["args"]["sent_cycle"], event["args"]["arrived_cycle"]
        assert span(event) == (max(sent, first), min(arrived, last))
    assert {span(event) for event in slices(events, "collective")} == {(first, last)}
    # An arrow leads to nothing that began before: where it would end is not seen.
    sends = {(event["tid"], span(event)[0]): event for event in found}
    ends = [e for e in events if e["ph"] == "f" and e["cat"] == "dependency"]
    assert len(ends) > 10
    for event in ends:
        assert sends[event["tid"], nanoseconds(event["ts"])]["args"]["sent_cycle"] >= first
    assert not slices(list(TraceEvents(trace, trace.cycles + 1000)), "send")


def test_slices_get_as_few_lanes_as_can_be():
    in_turn = lanes_of_slices(np.zeros(3, int), np.array([0, 5, 9]), np.array([5, 9, 12]))
    assert in_turn.tolist() == [0, 0, 0]
    rng = np.random.default_rng(3)
    track = rng.integers(0, 4, 300)
    begin = rng.integers(0, 1000, 300)
    end = begin + rng.integers(1, 40, 300)
    lanes = lanes_of_slices(track, begin, end)
    for each in range(4):
        mine = track == each
        at_once = [((begin[mine] <= t) & (end[mine] > t)).sum() for t in range(1040)]
        assert lanes[mine].max() + 1 == max(at_once)
        for lane in range(lanes[mine].max() + 1):
            of_lane = mine & (lanes == lane)
            spans = sorted(zip(begin[of_lane], end[of_lane], strict=True))
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_a_file_holds_the_events_and_says_what_they_are(tmp_path, name):
    trace, path = traced("ring:4", "ring"), tmp_path / name
    write_trace_events(path, TraceEvents(trace), 1.25)
    first = path.read_bytes()
    text = gzip.decompress(first) if name.endswith(".gz") else first
    data = json.loads(text)
    assert data["traceEvents"] == list(TraceEvents(trace))
    assert data["displayTimeUnit"] == "ns"
    assert data["otherData"] == {
        **{"producer": "multitree", "topology": "ring:4", "algorithm": "ring"},
        **{"schedule_hash": trace.schedule.hash, "engine": "analytic", "clock_ghz": 1.25},
        **{"time_unit": "one nanosecond shown is one cycle", "cycles": trace.cycles},
    }
    write_trace_events(path, TraceEvents(trace), 1.25)
    assert path.read_bytes() == first


def test_every_cycle_is_a_nanosecond_also_to_readers_that_cut_off():
    trace = traced("ring:4", "ring", size_bytes=1 << 20)
    assert trace.cycles > 99_000
    for event in slices(list(TraceEvents(trace)), "send"):
        assert span(event) == (event["args"]["sent_cycle"], event["args"]["arrived_cycle"])


@needs_rtl
@pytest.mark.slow
def test_interfaces_in_rtl_have_a_trace_too():
    topology = parse_topology("ring:4")
    with Runner.timed(topology, "rtl") as runner:
        report, trace = runner.simulate(build(topology, "multitree"), 4096)
    assert report.exact and report.cycles == trace.cycles and trace.engine == "rtl"
    events = list(TraceEvents(trace))
    check(events)
    assert len(slices(events, "send")) == 24
