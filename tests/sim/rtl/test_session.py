"""The rtl engine: right bits whatever the timing, and faults that say where."""

import dataclasses
import itertools
import os

import numpy as np
import pytest

from multitree import DeviceError, TopologyError, build, exact, parse_topology
from multitree.nic.driver.commands import DEPENDENCIES, FLOW_CONTROLS, HostOp
from multitree.nic.driver.config import Config
from multitree.nic.driver.registers import ADDRESS, ID
from multitree.nic.driver.table import compile_table
from multitree.sim.analytic.engine import analytic
from multitree.sim.emulator.verilator import Waveform
from multitree.sim.faults.diagnosis import check_responses
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.collectives import DTYPES, OPS
from multitree.topology.families.direct import fully_connected, ring, torus
from tests.benches import bench_module
from tests.emulation import needs_rtl
from tests.host.values import make_buffers
from tests.sim.emulated import checked, emulate, same_bits
from tests.topology.graphs import copy_of

pytestmark = needs_rtl
networks = bench_module("_networks")

SEED = int(os.environ.get("MULTITREE_SEED", "1"))


def buffers_of(seed, *sizes):
    """Values for which the order of additions matters."""
    print(f"seed {seed}")
    return make_buffers(seed, *sizes)


def trace_of(schedule, buffers, **options):
    """Trace of an exact collective, on a network of its own."""
    return emulate(schedule, [buffers], **options)[0]


def random_topology(seed):
    rng = np.random.default_rng(seed)
    return networks.random_graph(lambda: (9, 12, int(rng.integers(2**31))))


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    ("spec", "algorithm", "n", "dtype", "op"),
    [
        ("ring:2", "multitree", 40, "float32", "sum"),
        ("torus:4x4", "multitree", 4099, "float32", "sum"),
        ("torus:4x4", "multitree", 4099, "bfloat16", "sum"),
        ("torus:4x4", "multitree", 4101, "bfloat16", "max"),
        ("torus:4x4", "bidirectional_ring", 1000, "int32", "sum"),
        ("torus:4x4", "multitree", 1001, "float32", "max"),
        ("mesh:3x2", "ring", 333, "float32", "sum"),
        ("mesh:5x3", "multitree", 2047, "int32", "sum"),
        ("mesh:5x3", "multitree", 47, "int32", "max"),
        ("full:5", "multitree", 777, "float32", "sum"),
    ],
)
def test_every_rank_s_memory_equals_execute_bit_for_bit(spec, algorithm, n, dtype, op):
    schedule = build(parse_topology(spec), algorithm)
    buffers = buffers_of(SEED, schedule.topology.num_ranks, n, dtype)
    before = buffers.copy()
    trace = trace_of(schedule, buffers, op=op)
    assert same_bits(buffers, before)
    assert trace.engine == "rtl" and trace.schedule is schedule
    assert (trace.arrived > trace.sent).all() and trace.cycles == trace.done.max()


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    ("latencies_ns", "cycles_per_flit"),
    [((1, 1), (100, 100)), ((390, 1), (1, 35)), ((390, 1), (1, 100)), ((390, 390), (35, 100))],
)
def test_ranks_start_on_slow_links_when_these_carry_no_handshake_any_more(
    latencies_ns, cycles_per_flit
):
    topology = dataclasses.replace(
        ring(2),
        latency_ns=np.array(latencies_ns, float),
        bandwidth_gbytes_per_s=16 / np.array(cycles_per_flit, float),
    )
    schedule = build(topology, "multitree")
    with RtlSession(topology) as session:
        # Behind the reset of a new session, behind none, and behind that of one in use.
        for reset in (False, False, True):
            if reset:
                session.reset()
            (trace,) = checked(session, schedule, [buffers_of(SEED, 2, 80)])
            expected = exact(schedule, 20)
            assert trace.cycles == expected.cycles
            assert np.array_equal(trace.sent, expected.sent)
            assert np.array_equal(trace.arrived, expected.arrived)


@pytest.mark.parametrize("collective", ["reduce_scatter", "all_gather", "broadcast", "reduce"])
def test_every_collective_leaves_the_memory_that_execute_says(collective):
    root = 2 if collective in ("broadcast", "reduce") else None
    trace_of(build(torus(4, 4), "multitree", collective, root), buffers_of(SEED, 16, 501))


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("op", OPS)
def test_special_values_are_those_of_execute(dtype, op):
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.3e38, 1.0, 1e-38, 1e-40]
    values = np.random.default_rng(SEED).choice(np.array(special, DTYPES[dtype]), (16, 203))
    # Zeros of both signs alone: a larger number would hide which one is the maximum.
    values[1:, 5:50], values[0, 5:50] = -0.0, 0.0
    trace_of(build_multitree(torus(4, 4)), values, op=op)


def test_a_type_that_the_session_is_not_built_for_is_refused():
    schedule = build_multitree(torus(4, 4))
    values = np.zeros((16, 8), DTYPES["bfloat16"])
    with RtlSession(torus(4, 4)) as session, pytest.raises(TypeError, match="not bfloat16"):
        session.run(schedule, [values])


def test_the_empty_buffer():
    trace = trace_of(build_multitree(ring(4)), np.zeros((4, 0), np.float32))
    assert trace.cycles > 300 and not trace.link_flits.any()


def test_payload_flits_are_counted_on_the_links_that_the_schedule_uses():
    schedule = build_multitree(torus(4, 4))
    trace = trace_of(schedule, buffers_of(SEED, 16, 4000))
    assert (trace.link_flits == analytic(schedule, 1000).link_flits).all()
    assert trace.link_utilization == trace.link_flits.sum() / (64 * trace.cycles)


MODES = list(itertools.product(DEPENDENCIES, FLOW_CONTROLS))


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(("dependency", "flow_control"), MODES)
@pytest.mark.parametrize(
    ("spec", "algorithm"),
    [("ring:2", "multitree"), ("torus:4x4", "multitree"), ("mesh:4x4", "bidirectional_ring")],
)
def test_the_analytic_engine_predicts_cycles_within_two_percent(
    spec, algorithm, dependency, flow_control
):
    schedule = build(parse_topology(spec), algorithm)
    model = LinkModel(dependency=dependency, flow_control=flow_control)
    buffers = buffers_of(SEED, schedule.topology.num_ranks, 16_384)
    trace = trace_of(schedule, buffers, model=model)
    assert int(trace.link_flits.sum()) == sum(np.diff(schedule.chunks(4096))[schedule.flow])
    predicted = analytic(schedule, 4096, model)
    assert abs(predicted.cycles / trace.cycles - 1) < 0.02
    assert abs(predicted.arrived - trace.arrived).max() < 0.02 * trace.cycles


@pytest.mark.slow
@pytest.mark.parametrize(("dependency", "flow_control"), MODES[1:])
def test_in_every_mode_sizes_that_fill_no_submessage_and_late_ranks_change_no_bit(
    dependency, flow_control
):
    topology = random_topology(SEED)
    schedule = build_multitree(topology)
    model = LinkModel(dependency=dependency, flow_control=flow_control)
    timing = MemoryTiming(extra_cycles=40, stall_percent=30, seed=SEED)
    skews = np.random.default_rng(SEED).integers(0, 3000, topology.num_ranks).tolist()
    with RtlSession(topology, link_model=model, memory_timing=timing) as session:
        for n in (0, 7, 577, 1013):
            buffers = [buffers_of(SEED + k, topology.num_ranks, n) for k in range(3)]
            checked(session, schedule, buffers, start_skew_cycles=skews)


def test_slower_memory_and_links_are_slower_as_predicted_and_change_no_bit():
    model = LinkModel(memory_read_cycles=17, memory_write_cycles=9)
    schedule = build_multitree(copy_of(torus(4, 4), 5.0, 20.0))
    trace = trace_of(schedule, buffers_of(SEED, 16, 6000), model=model)
    assert abs(analytic(schedule, 1500, model).cycles / trace.cycles - 1) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
def test_late_ranks_random_memories_and_no_barriers_change_no_bit(seed):
    topology = (torus(4, 4), random_topology(seed), ring(5), parse_topology("mesh:3x3"))[seed % 4]
    schedule = build_multitree(topology)
    rng = np.random.default_rng(seed)
    timing = MemoryTiming(extra_cycles=40, stall_percent=30, seed=seed)
    buffers = [buffers_of(100 * seed + k, topology.num_ranks, 501) for k in range(5)]
    skews = rng.integers(0, 10_001, topology.num_ranks).tolist()
    with RtlSession(topology, memory_timing=timing) as session:
        first, *_ = checked(session, schedule, buffers, start_skew_cycles=skews)
    assert (first.start - first.start.min() == np.array(skews) - min(skews)).all()


@pytest.mark.slow
def test_a_session_runs_other_sizes_types_and_schedules_one_after_the_other():
    topology = torus(4, 4)
    with RtlSession(topology) as session:
        for n, dtype, algorithm in (
            (100, "float32", "multitree"),
            (100, "float32", "multitree"),
            (999, "float32", "multitree"),
            (999, "int32", "multitree"),
            (100, "float32", "bidirectional_ring"),
        ):
            schedule = build(topology, algorithm)
            checked(session, schedule, [buffers_of(SEED, 16, n, dtype)])
            for messages in (session.network.sent(), session.network.arrived()):
                assert len(messages) == schedule.num_transfers
                assert (np.diff(messages["cycle"].astype(int)) >= 0).all()


def test_a_run_is_the_same_every_time_and_on_any_number_of_threads(monkeypatch):
    schedule = build_multitree(torus(4, 4))
    buffers, made = buffers_of(SEED, 16, 2000), {"memory_timing": MemoryTiming(9, 9, 9)}
    traces = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(os, "cpu_count", lambda threads=threads: threads)
        traces.append(trace_of(schedule, buffers, made=made))
    for trace in traces[1:]:
        assert (trace.arrived == traces[0].arrived).all() and (trace.sent == traces[0].sent).all()


def test_lockstep_sends_no_step_before_the_time_of_those_before_it():
    topology = torus(4, 4)
    schedule = build_multitree(topology)
    buffers = buffers_of(SEED, 16, 2000)
    with RtlSession(topology) as session:
        (free,) = checked(session, schedule, [buffers])
        (trace,) = checked(session, schedule, [buffers], lockstep=True)
        num_rows = session.network.access(0, HostOp.read(ADDRESS["NUM_ROWS"]), 1000)
    assert trace.cycles > free.cycles
    # A row for each message, and one for each step in which the rank sends nothing.
    steps = schedule.step[schedule.src == 0]
    assert num_rows == len(steps) + schedule.num_steps - len(np.unique(steps))
    step_cycles = 32 + 1 + 150  # the longest chunk, its head, the link
    assert (trace.sent[0] >= schedule.step * step_cycles).all()
    assert (free.sent[0] < schedule.step * step_cycles).any()


def without_row(table, row):
    names = ("op", "flow", "port", "step", "stage")
    left = {name: np.delete(getattr(table, name), row) for name in names}
    return dataclasses.replace(table, **left)


def stop(schedule, *, changed=None, change=None, **settings):
    """Run what must fail, with the table of a rank changed; the error, and when it came."""
    num_ranks, n = schedule.topology.num_ranks, 400
    with RtlSession(schedule.topology) as session:
        tables = [
            compile_table(schedule, rank, n // 4, session.config) for rank in range(num_ranks)
        ]
        if change is not None:
            tables[changed] = change(tables[changed])
        with pytest.raises(DeviceError) as caught:
            session.run(schedule, [buffers_of(SEED, num_ranks, n)], tables=tables, **settings)
        return str(caught.value), session.network.cycle


def test_a_rank_that_never_starts_ends_in_a_named_fault_in_bounded_time():
    schedule = build_multitree(torus(4, 4))
    text, cycles = stop(schedule, idle_ranks=[3])
    assert "(WATCHDOG)" in text or "(FIRST_ARRIVAL)" in text
    assert "awaited" in text and "; never started rank 3; " in text
    first = schedule.describe(int(np.flatnonzero(schedule.src == 3)[0]))
    assert text.endswith(f"{first} was not sent, although all it needs had arrived")
    assert cycles < 30_000


def test_an_illegal_row_ends_in_a_fault_that_names_rank_and_row():
    def change(table):
        port = table.port.copy()
        port[3] = 9
        return dataclasses.replace(table, port=port)

    text, cycles = stop(build_multitree(torus(4, 4)), changed=2, change=change)
    assert text.startswith("Rank 2, row 3: ") and "ROW_ILLEGAL" in text
    assert "loading the table" in text and cycles < 10_000


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 7, 19])
def test_a_missing_arrival_ends_in_a_fault_that_names_the_message(victim):
    """One row is left out of one rank's table: all stop, and the row is found."""
    schedule = build_multitree(torus(4, 4))
    rank = 5
    row = int(np.flatnonzero(schedule.src == rank)[victim])
    text, cycles = stop(schedule, changed=rank, change=lambda table: without_row(table, victim))
    assert "(WATCHDOG)" in text or "(FIRST_ARRIVAL)" in text
    assert text.startswith("Rank ") and "awaited" in text
    assert text.endswith(
        f"{schedule.describe(row)} was not sent, although all it needs had arrived"
    )
    assert cycles < 30_000


def test_what_was_awaited_is_reported_with_the_rank_it_should_have_come_from():
    schedule = build_multitree(ring(2))
    text, _ = stop(schedule, changed=1, change=lambda table: without_row(table, 0))
    # Both wait; whose watchdog comes first tells the other.
    assert text.startswith("Rank 1: nothing progressed") and "origin rank 1; " in text
    assert "REDUCE 1 -> 0) was not sent, although all it needs had arrived" in text


def test_a_register_that_an_interface_refuses_is_named():
    with RtlSession(ring(2)) as session:
        session.network.set_script(1, [HostOp.read(0), HostOp.read(0x3000)])
        assert session.network.run(1000)
        assert session.network.results(1)["value"][0] == ID
        with pytest.raises(DeviceError, match="Rank 1: refused access to register 0x3000"):
            check_responses(session.network)


def test_what_the_engine_cannot_run_is_refused_with_the_reason():
    schedule = build_multitree(ring(4))
    with RtlSession(ring(4)) as session:
        with pytest.raises(
            TypeError, match="Buffers must be int32, float32 or bfloat16, not float64"
        ):
            session.run(schedule, [np.zeros((4, 8))])
        with pytest.raises(ValueError, match=r"Buffers must be of shape \(4, n\), not \(3, 8\)"):
            session.run(schedule, [np.zeros((3, 8), np.int32)])
        with pytest.raises(ValueError, match="must agree in shape and type"):
            session.run(schedule, [np.zeros((4, 8), np.int32), np.zeros((4, 9), np.int32)])
        with pytest.raises(ValueError, match="Buffers must be at least one set, not none"):
            session.run(schedule, [])
        with pytest.raises(ValueError, match=r"Start skews must be 4 whole numbers"):
            session.run(schedule, [np.zeros((4, 8), np.int32)], start_skew_cycles=[1, 2, 3])
        with pytest.raises(ValueError, match=r"Schedule must be for ring:4, not for ring:5"):
            session.run(build_multitree(ring(5)), [np.zeros((5, 8), np.int32)])
    with pytest.raises(TopologyError, match="a rank has 9 links, an interface at most 8 ports"):
        RtlSession(fully_connected(10))


@pytest.mark.long
@pytest.mark.dear
def test_a_waveform_of_interfaces_shows_the_window_asked_for(tmp_path):
    schedule = build_multitree(ring(2))
    # Small interfaces, which alone here are compiled for a waveform.
    config = Config(num_ports=1, table_depth=32, num_flows=8, dtypes=("int32",), modes=())
    made = {"waveform": Waveform(tmp_path / "run.vcd", 100, 150), "config": config}
    trace_of(schedule, buffers_of(SEED, 2, 40, "int32"), made=made)
    text = (tmp_path / "run.vcd").read_text()
    times = [int(line[1:]) for line in text.splitlines() if line.startswith("#")]
    assert times[0] == 100_000 and times[-1] < 150_000
    assert "rank_1" in text and "monitor_0_valid" in text
