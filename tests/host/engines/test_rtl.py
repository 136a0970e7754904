"""The rtl engine behind the Communicator: exact, kept open, honest on faults."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import (
    Communicator,
    DeviceError,
    LinkModel,
    ScheduleError,
    TopologyError,
    build,
    execute,
    fat_tree,
    fully_connected,
    mesh,
    ring,
    torus,
)
from multitree.host.engines import Collective, Plan
from multitree.host.rtl_engine import RtlEngine
from multitree.sim.emulator.verilator import Waveform
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.sizing import config_for
from multitree.topology.collectives import DTYPES
from tests.emulation import needs_rtl
from tests.host.values import bits, make_buffers, with_odd_values


@pytest.fixture(scope="module")
def comm():
    with Communicator(torus(4, 4), engine="rtl", check=True) as opened:
        yield opened


def collective(schedule, *arguments, **chosen):
    return Collective.of(Plan(schedule, **chosen), *arguments)


@needs_rtl
@pytest.mark.parametrize(("name", "root"), [("all_reduce", None), ("broadcast", 6), ("reduce", 6)])
def test_memory_equals_execute_bit_for_bit(comm, name, root):
    buffers = with_odd_values(make_buffers(3, 16, 333))
    work = getattr(comm, name)(buffers, **({} if root is None else {"root": root}))
    expected = execute(build(torus(4, 4), "multitree", name, root=root), buffers)
    assert (bits(work.wait()) == bits(expected)).all()
    assert work.report.exact is True


@pytest.mark.slow
@needs_rtl
def test_the_two_phases_are_inverse(comm):
    buffers = make_buffers(4, 16, 777)
    gathered = comm.all_gather(comm.reduce_scatter(buffers).wait()).wait()
    assert (bits(gathered) == bits(comm.all_reduce(buffers).wait())).all()


@needs_rtl
def test_average_is_one_division_after_the_sum(comm):
    buffers = make_buffers(5, 16, 100)
    total, average = (comm.all_reduce(buffers, op=op) for op in ("sum", "average"))
    assert (bits(average.wait()) == bits(total.wait() / np.float32(16))).all()
    assert average.report.exact is True


@needs_rtl
def test_the_report_has_cycles_and_what_follows(comm):
    report = comm.all_reduce(make_buffers(6, 16, 4096)).report
    assert report.engine == "rtl"
    assert [len(ports) for ports in report.ports] == [4] * 16
    # Every rank sends its share of every flow but its own up and down the trees.
    assert report.totals.flits_sent == report.totals.flits_received == 2 * 15 * 1024
    cycles = report.cycles * report.link_utilization * 64
    assert report.totals.flits_sent == pytest.approx(cycles)
    assert "port-cycles waited: dependency " in str(report)
    assert report.cycles > report.bound_cycles == 600
    assert report.link_utilization == pytest.approx(30 * 1024 / (64 * report.cycles))
    assert report.bandwidth_gbytes_per_s == pytest.approx(16384 / report.cycles)


@needs_rtl
def test_after_a_fault_the_next_collective_runs_on_fresh_interfaces(comm, monkeypatch):
    def fault(*arguments, **options):
        raise DeviceError("Rank 3, port 1, flow 2: nothing progressed")

    buffers = make_buffers(7, 16, 40)
    comm.all_reduce(buffers).wait()
    before = comm._runner.engine._session
    with monkeypatch.context() as patch:
        patch.setattr(RtlSession, "run", fault)
        with pytest.raises(DeviceError, match="Rank 3, port 1, flow 2"):
            comm.all_reduce(buffers).wait()
    assert comm.all_reduce(buffers).report.exact is True
    assert comm._runner.engine._session is not before


@needs_rtl
def test_interfaces_with_too_few_ports_are_refused_when_the_communicator_is_made():
    with pytest.raises(TopologyError, match="a rank has 9 links, an interface at most 8 ports"):
        Communicator(fully_connected(10), engine="rtl")


@needs_rtl
def test_what_is_queued_is_loaded_while_the_one_before_it_runs(monkeypatch):
    """Unless it needs larger interfaces: then it is loaded when these are there."""
    reported, run = [], RtlSession.run

    def watched(session, schedule, buffers, *, then, **options):
        reported.append(then and (then.num_elements, then.dtype, then.op, then.dependency))
        return run(session, schedule, buffers, then=then, **options)

    monkeypatch.setattr(RtlSession, "run", watched)
    buffers, more = make_buffers(8, 4, 500), np.broadcast_to(np.int32(0), (4, 1 << 27))
    engine = RtlEngine(torus(2, 2), LinkModel())
    trees, ring = build(torus(2, 2), "multitree"), build(torus(2, 2), "ring")
    engine.prepare(collective(trees, buffers))
    engine.expect(collective(ring, buffers, "average", dependency="submessage"))
    image = engine.run(collective(trees, buffers)).memory
    assert (bits(image) == bits(execute(trees, buffers))).all()
    engine.prepare(collective(ring, buffers))
    engine.expect(collective(trees, more))
    image = engine.run(collective(ring, buffers, "average", dependency="submessage")).memory
    assert (bits(image) == bits(execute(ring, buffers) / np.float32(4))).all()
    engine.close()
    assert reported == [(500, "float32", "sum", "submessage"), None]


class Recorder:
    """Stands for a session and records what it was opened with."""

    opened = ()

    def __init__(self, topology, *, link_model, waveform, backdoor, num_threads, say, **needs):
        self.config = config_for(topology, link_model, **needs)
        self.num_switches = topology.num_switches
        self.waveform = waveform
        self.is_open = True
        Recorder.opened.append(self)

    def close(self):
        self.is_open = False


@pytest.fixture
def opened(monkeypatch):
    """Sessions that the engine opens, without interfaces."""
    monkeypatch.setattr("multitree.host.rtl_engine.RtlSession", Recorder)
    monkeypatch.setattr(Recorder, "opened", [])
    return Recorder.opened


def test_switches_stand_beside_ranks_only_for_schedules_that_need_them(opened):
    engine, buffers = RtlEngine(ring(8), LinkModel()), np.zeros((8, 100), np.float32)
    for algorithm in ("multitree", "swing", "double_tree", "ring"):
        schedule = build(ring(8), algorithm)
        engine.prepare(collective(schedule, buffers))
    assert [session.num_switches for session in opened] == [0, 8, 0]
    assert [session.config.num_classes for session in opened] == [0, 2, 0]
    assert [session.is_open for session in opened] == [False, False, True]


def test_what_other_interfaces_are_needed_for_is_not_queued(opened):
    """Waves on links, then what goes through routers attached to ranks: each runs on its own."""
    topology, memory = mesh(3, 3), np.zeros((9, 4096), np.float32)
    engine = RtlEngine(topology, LinkModel())
    waves = replace(build(topology, "forest"), num_waves=3)
    routed = build(topology, "halving_doubling")
    for now, then in ((waves, routed), (routed, waves)):
        engine.prepare(collective(now, memory))
        engine.expect(collective(then, memory))
        assert engine._then is None
        engine.expect(collective(now, memory))
        assert engine._then is not None
        engine._then = None
    engine.close()


def test_a_schedule_that_is_refused_is_not_asked_for_again_with_the_next_one(opened):
    topology, memory = fat_tree(2, 2), np.zeros((4, 4096), np.float32)
    engine = RtlEngine(topology, LinkModel())
    with pytest.raises(ScheduleError, match="waves must be one in interfaces on shared links"):
        engine.prepare(collective(build(topology, "forest"), memory))
    engine.prepare(collective(build(topology, "multitree"), memory))
    assert [session.config.wave_width for session in opened] == [0]
    engine.close()


def test_a_session_stays_until_larger_interfaces_are_needed(opened):
    engine = RtlEngine(torus(16, 16), LinkModel())
    small = build(torus(16, 16), "multitree", "broadcast", root=0)
    large = build(torus(16, 16), "multitree")
    for schedule in (small, small, large, small, large):
        engine.prepare(collective(schedule, np.zeros((256, 100), np.float32)))
    first, second = opened
    assert not first.is_open and second.is_open
    assert second.config.num_flows >= 256 > first.config.num_flows
    for dtype in (DTYPES["bfloat16"], np.int32):
        engine.prepare(collective(small, np.zeros((256, 100), dtype)))
    *_, third = opened
    assert len(opened) == 3 and not second.is_open
    assert "bfloat16" in third.config.dtypes and "bfloat16" not in second.config.dtypes
    engine.close()
    assert not third.is_open


def test_only_the_first_of_several_networks_writes_the_waveform(opened, tmp_path):
    """Interfaces for another type are another network, which would begin the same file anew."""
    waveform = Waveform(tmp_path / "run.vcd")
    engine, schedule = RtlEngine(ring(4), LinkModel(), waveform=waveform), build(ring(4), "ring")
    for dtype in ("float32", "bfloat16"):
        engine.prepare(collective(schedule, np.zeros((4, 100), DTYPES[dtype])))
    assert [session.waveform for session in opened] == [waveform, None]
