"""Loading takes what the emulated hosts take; an offload is all together."""

from dataclasses import replace

import pytest

from multitree import LinkModel, build, parse_topology, ring, torus
from multitree.host.parameters import scaled
from multitree.host.report import UNKNOWN_OFFLOAD
from multitree.host.runner import Runner
from multitree.sim.emulator.verilator import Waveform
from multitree.sim.timing.offload import Host
from multitree.topology.algorithms.rings import build_ring

MODEL = LinkModel()
# A host looks at the status every 32 cycles.
OFF_CYCLES = 32


def report_of(schedule, engine="analytic", **options):
    """What is reported of a collective of 4 KiB."""
    with Runner.timed(schedule.topology, engine, **options) as runner:
        return runner.simulate(schedule, 4096)[0]


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    ("spec", "algorithms"),
    [
        ("torus:2x2", ["multitree"]),
        ("ring:4", ["bidirectional_ring"]),
        ("mesh:4x4", ["multitree", "forest", "ring_2d"]),
        ("torus:4x4", ["multitree", "bidirectional_ring"]),
        ("fat_tree:2x2", ["multitree", "ring"]),
    ],
)
@pytest.mark.parametrize("lockstep", [False, True])
def test_tables_are_loaded_in_the_cycles_of_the_emulated_hosts(spec, algorithms, lockstep):
    topology = parse_topology(spec)
    for algorithm in algorithms:
        schedule = build(topology, algorithm, cost_model=MODEL.cost_model(topology, 256))
        if lockstep and schedule.num_waves > 1:
            continue
        measured, modelled = (
            report_of(schedule, engine, lockstep=lockstep).loading_cycles
            for engine in ("rtl", "analytic")
        )
        assert abs(modelled - measured) <= OFF_CYCLES, algorithm


@pytest.mark.slow
def test_what_loading_takes_does_not_depend_on_links_or_a_waveform(tmp_path):
    measured = []
    for latency_ns, name in ((1.0, None), (30.0, None), (150.0, None), (30.0, "run.vcd")):
        topology = scaled(torus(2, 2), None, latency_ns)
        waveform = None if name is None else Waveform(tmp_path / name)
        report = report_of(build(topology, "multitree"), "rtl", waveform=waveform)
        measured.append(report.loading_cycles)
    # Each of writes and status is over up to 8 cycles before the emulation stops.
    assert max(measured) - min(measured) <= 3 * 8


def test_every_write_takes_its_cycles():
    # 6 rows of two words, 4 flows of five, 4 sizes and a CRC of the table, 7 settings, a commit.
    schedule, writes = build_ring(ring(4)), 2 * 6 + 5 * 4 + 4 + 7 + 1
    one, two = (Host(cycles).loading_cycles(schedule, 256, MODEL) for cycles in (6, 7))
    assert two - one == writes


def test_an_offload_is_loading_the_collective_and_the_host():
    report = report_of(build_ring(ring(4)), host=Host(50, 2.5))
    assert report.offload_us == pytest.approx((report.loading_cycles + report.cycles) / 1e3 + 2.5)
    share = 8 * MODEL.flit_bytes / report.wire_bits_per_flit
    left = report.size_bytes / report.offload_us / 1000 * share
    assert report.offload_bandwidth_gbytes_per_s == pytest.approx(left)
    faster = replace(MODEL, clock_ghz=2.0)
    twice = report_of(build_ring(ring(4)), host=Host(50, 2.5), link_model=faster)
    cycles = twice.loading_cycles + twice.cycles
    assert twice.offload_us == pytest.approx(cycles / 2e3 + 2.5)


def test_what_no_interface_holds_is_not_loaded():
    assert Host().loading_cycles(build_ring(ring(4)), 1 << 32, MODEL) is None


@pytest.mark.parametrize(
    ("spec", "model"),
    [
        ("full:10", MODEL),
        ("fat_tree:2x2", LinkModel(flit_bytes=8)),
        ("ring:4", LinkModel(memory_read_cycles=5000)),
    ],
)
def test_what_no_interface_can_be_built_for_is_timed_and_its_loading_unknown(spec, model):
    schedule = build(parse_topology(spec), "multitree")
    report = report_of(schedule, link_model=model, host=Host(6, 2.5))
    assert report.cycles > 0
    assert report.loading_cycles is report.offload_us is None
    assert UNKNOWN_OFFLOAD in str(report)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ((0, 0.0), "Write cycles must be at least 1, not 0"),
        ((6, -1.0), "Host us must be at least 0 and finite, not -1.0"),
        ((6, float("inf")), "Host us must be at least 0 and finite, not inf"),
    ],
)
def test_a_host_that_cannot_be_is_refused(values, problem):
    with pytest.raises(ValueError, match=problem):
        Host(*values)


def test_a_host_s_time_is_not_asked_for_where_loading_is_unknown():
    with pytest.raises(ValueError, match=r"Host us must be 0 with the backdoor.*not 2\.5"):
        Runner.timed(ring(4), "rtl", backdoor=True, host=Host(call_us=2.5))


def test_hosts_in_rtl_write_as_they_do():
    with pytest.raises(ValueError, match=r"Write cycles must be 6 with engine 'rtl'.*not 7"):
        Runner.timed(ring(4), "rtl", host=Host(7))
