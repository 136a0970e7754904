"""The five collectives, their reports, and what a Communicator refuses."""

import contextlib
import threading
import time
from functools import partial

import numpy as np
import pytest

from multitree import (
    Communicator,
    EngineError,
    LinkModel,
    ScheduleError,
    Topology,
    TopologyError,
    build,
    execute,
    hypercube,
    mesh,
    parse_topology,
    ring,
    torus,
)
from multitree.host import engines
from multitree.host.work import average_of
from multitree.sim.choice import Chooser
from multitree.topology.algorithms.registry import ALGORITHMS
from tests.emulation import needs_rtl
from tests.host.tensors.schedules import without_a_row
from tests.host.values import bits, make_buffers, odd_buffers, with_odd_values
from tests.refusals import refuses

LENGTHS = (0, 1, 3, 4, 61, 1000)


@pytest.fixture(scope="module")
def comm():
    with Communicator(mesh(3, 2), check=True) as opened:
        yield opened


@pytest.mark.parametrize("op", ["sum", "max"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
@pytest.mark.parametrize("n", LENGTHS)
def test_all_reduce_is_execute_bit_for_bit(comm, n, dtype, op):
    buffers = odd_buffers(n, 6, n, dtype)
    before = buffers.copy()
    work = comm.all_reduce(buffers, op=op)
    result = work.wait()
    assert work.report.size_bytes == buffers[0].nbytes
    expected = execute(build(comm.topology, "multitree"), buffers, op)
    assert (bits(result) == bits(expected)).all()
    assert (bits(result) == bits(result)[0]).all()
    assert (bits(buffers) == bits(before)).all()


def test_average_is_the_sum_divided_once_by_the_number_of_ranks(comm):
    buffers = make_buffers(1, 6, 100)
    total = comm.all_reduce(buffers).wait()
    work = comm.all_reduce(buffers, op="average")
    assert (bits(work.wait()) == bits(total / np.float32(6))).all()
    assert work.report.exact is True


def test_avg_is_another_name_of_average(comm):
    buffers = make_buffers(1, 6, 9)
    for run in (comm.all_reduce, comm.reduce_scatter, partial(comm.reduce, root=1)):
        short, long = (run(buffers, op=op).wait() for op in ("avg", "average"))
        assert all((bits(one) == bits(other)).all() for one, other in zip(short, long, strict=True))


def test_an_average_of_bfloat16_is_a_float32_quotient_rounded(comm):
    buffers = make_buffers(1, 6, 101, "bfloat16")
    total = comm.all_reduce(buffers).wait().astype(np.float32)
    average = comm.all_reduce(buffers, op="average").wait()
    assert average.dtype == buffers.dtype
    assert (bits(average) == bits((total / np.float32(6)).astype(buffers.dtype))).all()


def test_the_divisor_of_an_average_is_not_rounded_to_the_type_of_the_sums():
    sums = make_buffers(2, 1, 1000, "bfloat16")
    quotient = sums.astype(np.float32) / np.float32(1001)
    average = average_of(sums, 1001)
    assert (bits(average) == bits(quotient.astype(sums.dtype))).all()
    assert (bits(average) != bits(sums / sums.dtype.type(1001))).any()


def test_the_nan_of_an_average_is_the_canonical_one(comm):
    average = comm.all_reduce(with_odd_values(make_buffers(1, 6, 100)), op="average").wait()
    assert np.isnan(average[:, [3, 5, 7]]).all()
    reduced = comm.reduce(with_odd_values(make_buffers(1, 6, 100)), root=2, op="average").wait()
    for result in (average, reduced):
        assert set(bits(result)[np.isnan(result)]) == {0x7FC00000}


@pytest.mark.parametrize("shape", [(6, 5, 7), (6, 2, 3, 4), (6,)])
def test_the_result_has_the_shape_of_the_input(comm, shape):
    buffers = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    assert (comm.all_reduce(buffers).wait() == np.broadcast_to(buffers.sum(0), shape)).all()
    listed = comm.all_reduce(list(np.atleast_2d(buffers.reshape(6, -1)))).wait()
    assert isinstance(listed, list)
    assert len(listed) == 6


@pytest.mark.parametrize("n", LENGTHS)
def test_reduce_scatter_gives_each_rank_its_part_of_the_sum(comm, n):
    buffers = make_buffers(n, 6, n, "int32")
    parts = comm.reduce_scatter(buffers).wait()
    assert len(parts) == 6
    assert (np.concatenate(parts) == buffers.sum(0, dtype=np.int32)).all()


@pytest.mark.parametrize("n", LENGTHS)
def test_all_gather_of_reduce_scatter_is_all_reduce(comm, n):
    buffers = make_buffers(n, 6, n)
    gathered = comm.all_gather(comm.reduce_scatter(buffers).wait()).wait()
    assert (bits(gathered) == bits(comm.all_reduce(buffers).wait())).all()
    halves = make_buffers(n, 6, n, "bfloat16")
    gathered = comm.all_gather(comm.reduce_scatter(halves, op="max").wait()).wait()
    assert (gathered == halves.max(axis=0)).all()


def test_chunks_are_whole_flits_of_the_link_model():
    buffers = make_buffers(1, 6, 101, "int32")
    with Communicator(mesh(3, 2), link_model=LinkModel(flit_bytes=64), check=True) as wide:
        work = wide.reduce_scatter(buffers)
        lengths = [len(part) for part in work.wait()]
        assert work.report.exact is True
        assert sum(lengths) == 101
        assert sorted(length % 16 for length in lengths) == [0, 0, 0, 0, 0, 5]
        assert (np.concatenate(work.wait()) == buffers.sum(0, dtype=np.int32)).all()


def algorithms_on_small_networks():
    """Specs, each with every algorithm that has a schedule there, and with auto."""
    for spec in ("torus:2x2", "ring:5", "fat_tree:2x2", "bigraph:2x2"):
        yield spec, "auto"
        for algorithm in ALGORITHMS:
            with contextlib.suppress(ScheduleError):
                build(parse_topology(spec), algorithm)
                yield spec, algorithm


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "algorithm"), [*algorithms_on_small_networks()])
def test_collectives_of_nothing_are_nothing_by_every_algorithm(spec, algorithm):
    topology = parse_topology(spec)
    nothing = np.zeros((topology.num_ranks, 0), np.float32)
    scatters = ("reduce_scatter", "all_gather")
    with Communicator(topology, algorithm=algorithm, check=True) as comm:
        for collective in ("all_reduce", "broadcast", "reduce", *scatters):
            asked = {"root": 1} if collective in ("broadcast", "reduce") else {}
            given = list(nothing) if collective == "all_gather" else nothing
            try:
                work = getattr(comm, collective)(given, **asked)
            except ScheduleError:
                assert collective in scatters, "the others are to be had of all algorithms"
                continue
            found = np.stack(work.wait())
            assert (found.shape, found.dtype) == (nothing.shape, nothing.dtype)
            assert (work.report.exact, work.report.size_bytes) == (True, 0)


@pytest.mark.slow
@needs_rtl
@pytest.mark.parametrize("algorithm", ["multitree", "forest", "auto"])
def test_interfaces_sum_nothing_between_two_sums_of_something(algorithm):
    something = make_buffers(3, 16, 40)
    with Communicator(torus(4, 4), algorithm=algorithm, engine="rtl", check=True) as comm:
        works = [comm.all_reduce(something[:, :n]) for n in (40, 0, 0, 40)]
        first, nothing, again, last = (work.wait() for work in works)
    assert nothing.shape == again.shape == (16, 0)
    assert (bits(first) == bits(last)).all()
    assert all(work.report.exact and work.report.bound_cycles > 0 for work in works)
    assert all(work.report.cycles > work.report.bound_cycles for work in works)


@pytest.mark.parametrize("root", range(6))
def test_broadcast_copies_the_root_to_every_rank_and_reduce_puts_the_sum_on_it(comm, root):
    buffers = with_odd_values(make_buffers(root, 6, 50))
    result = comm.broadcast(buffers, root=root).wait()
    assert (bits(result) == bits(buffers)[root]).all()
    buffers = make_buffers(root, 6, 50, "int32")
    result = comm.reduce(buffers, root=root).wait()
    assert (result[root] == buffers.sum(0, dtype=np.int32)).all()
    averaged = comm.reduce(np.ones((6, 3), np.float32), root=root, op="average").wait()
    assert (averaged[root] == 1).all()


def test_a_buffer_may_be_overwritten_as_soon_as_the_collective_was_started(comm):
    buffers = np.ones((6, 100_000), np.int32)
    work = comm.all_reduce(buffers)
    buffers[:] = 7
    assert (work.wait() == 6).all()


def test_collectives_started_without_waiting_end_in_order(comm):
    works = [comm.all_reduce(np.full((6, 10), k, np.int32)) for k in range(20)]
    assert (works[-1].wait() == 6 * 19).all()
    assert all(work.done() for work in works)
    assert [int(work.wait()[0, 0]) for work in works] == [6 * k for k in range(20)]


def test_the_report_names_what_ran(comm):
    work = comm.all_reduce(make_buffers(1, 6, 11))
    work.wait()
    report = work.report
    ran = (report.engine, report.algorithm, report.collective)
    assert ran == ("numpy", "multitree", "all_reduce")
    assert report.schedule_hash == build(comm.topology, "multitree").hash
    assert (report.num_ranks, report.size_bytes) == (6, 44)
    assert report.exact is True
    assert report.cycles is report.time_us is report.bandwidth_gbytes_per_s is None
    assert report.ratio_to_bound is report.bound_cycles is report.link_utilization is None
    assert report.wall_seconds >= 0
    assert "44 bytes per rank on 6 ranks: multitree, engine numpy" in str(report)
    assert "cycles unknown" in str(report)


def test_without_check_nothing_is_said_about_exactness():
    with Communicator(ring(3)) as comm:
        assert comm.all_reduce(np.ones((3, 1), np.int32)).report.exact is None


def test_another_algorithm_has_another_hash():
    hashes = set()
    for algorithm in ("multitree", "ring", "bidirectional_ring"):
        with Communicator(torus(4, 4), algorithm=algorithm) as comm:
            hashes.add(comm.all_reduce(np.ones((16, 5), np.int32)).report.schedule_hash)
    assert len(hashes) == 3


def runs_on(monkeypatch, engine):
    monkeypatch.setattr("multitree.host.runner.open_engine", lambda *_, **__: engine)


def test_an_engines_error_comes_up_in_wait_and_in_report(monkeypatch):
    gate = threading.Event()

    class BrokenEngine(engines.NumpyEngine):
        def run(self, collective):
            gate.wait(10)
            raise engines.EngineError("rank 3, port 1: credit awaited")

    runs_on(monkeypatch, BrokenEngine(ring(3), LinkModel()))
    with Communicator(ring(3)) as comm:
        work = comm.all_reduce(np.ones((3, 2), np.int32))
        assert not work.done()
        with pytest.raises(TimeoutError):
            work.wait(timeout_seconds=0.01)
        gate.set()
        for asked in (work.wait, lambda: work.report):
            refuses(EngineError, "rank 3, port 1", asked)


def test_an_engine_is_reported_what_is_queued_behind_what_it_runs(monkeypatch):
    """Not what comes later, and nothing when nothing is queued."""
    reported, gate = [], threading.Event()

    class Engine(engines.NumpyEngine):
        def expect(self, collective):
            kind = collective.schedule.collective
            reported.append((kind, collective.memory.shape, collective.op))

        def run(self, collective):
            reported.append(collective.op)
            gate.wait(10)
            return super().run(collective)

    runs_on(monkeypatch, Engine(ring(3), LinkModel()))
    ones = np.ones((3, 8), np.float32)
    with Communicator(ring(3)) as comm:
        first = comm.all_reduce(ones)
        while not reported:
            time.sleep(0.001)
        works = [comm.broadcast(ones, root=1), comm.all_reduce(ones[:, :3], op="max")]
        gate.set()
        for work in (first, *works):
            work.wait()
    assert reported == ["sum", ("all_reduce", (3, 3), "max"), "sum", "max"]


def test_check_sees_one_wrong_bit(monkeypatch):
    class OneBitOff(engines.NumpyEngine):
        def run(self, collective):
            outcome = super().run(collective)
            bits(outcome.memory)[2, 5] ^= 1
            return outcome

    runs_on(monkeypatch, OneBitOff(ring(3), LinkModel()))
    with Communicator(ring(3), check=True) as comm:
        work = comm.all_reduce(np.ones((3, 8), np.float32))
        assert work.report.exact is False
        assert "equal to execute: NO" in str(work.report)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda c: c.all_reduce(np.ones((6, 2), np.float32), op="min"), ValueError, "not 'min'"),
        (lambda c: c.all_reduce(np.ones((6, 2), np.int32), op="average"), TypeError, "not int32"),
        (lambda c: c.all_reduce(np.ones((5, 2), np.int32)), ValueError, "6 rows"),
        (lambda c: c.broadcast(np.ones((6, 2), np.int32), root=6), ValueError, "rank 0..5, not 6"),
        (lambda c: c.reduce(np.ones((6, 2), np.int32), root=-1), ValueError, "not -1"),
        (lambda c: c.all_gather(np.ones((6, 2), np.int32)), TypeError, "must be a list"),
    ],
)
def test_wrong_input_is_refused_at_once_in_one_sentence(comm, call, error, says):
    refuses(error, says, call, comm)


ONE_WAY = [[0, 1], [1, 2], [2, 0], [0, 3], [3, 4], [4, 0]]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"engine": "cuda"}, ValueError, "one of numpy, torch, rtl, not 'cuda'"),
        ({"engine": "analytic"}, ValueError, "must carry data"),
        ({"algorithm": "tree"}, ScheduleError, "not 'tree'"),
        ({"link_model": 0}, TypeError, "Link model must be of class LinkModel, not int"),
        ({"check": "yes"}, TypeError, "Check must be of class bool, not str"),
        ({"topology": "torus:4x4"}, TypeError, "Topology must be of class Topology, not str"),
        # There is no way around.
        (
            {"topology": Topology("figure-eight", 5, 0, ONE_WAY, 16.0, 150.0), "algorithm": "ring"},
            *(ScheduleError, "figure-eight"),
        ),
    ],
)
def test_what_a_communicator_cannot_be_made_of_is_refused(arguments, error, says):
    refuses(error, says, Communicator, **{"topology": torus(2, 2)} | arguments)


@pytest.mark.parametrize("root", [True, 1.0])
def test_a_root_is_an_integer_also_where_there_is_a_schedule_for_its_equal(root):
    with Communicator(ring(4)) as comm:
        comm.broadcast(np.zeros((4, 3), np.float32), root=1).wait()
        with pytest.raises(ScheduleError, match=f"Root must be a rank 0..3, not {root}"):
            comm.broadcast(np.zeros((4, 3), np.float32), root=root)


def test_a_topology_without_ranks_is_refused():
    with pytest.raises(TopologyError):
        Communicator(torus(0))


def test_an_engine_that_cannot_run_is_never_replaced_and_the_next_down_is_named(monkeypatch):
    monkeypatch.setattr(engines, "why_not", lambda name: "there is no such thing here")
    reason = "there is no such thing here; the next engine down is 'numpy'"
    with pytest.raises(EngineError, match=f"^Engine 'torch' cannot run here: {reason}$"):
        Communicator(torus(2, 2), engine="torch")


@pytest.mark.parametrize("algorithm", ["multitree", "auto"])
def test_a_schedule_that_is_wrong_is_never_run(monkeypatch, algorithm):
    def build_with_a_row_too_few(*arguments, **options):
        return without_a_row(build(*arguments, **options), 0)

    for place in ("host.plans.build", "sim.choice.build_compact"):
        monkeypatch.setattr(f"multitree.{place}", build_with_a_row_too_few)
    with pytest.raises(ScheduleError, match=r"^Row|^Flow|by wrong") as error:
        Communicator(ring(3), algorithm=algorithm).all_reduce(np.ones((3, 4), np.int32))
    assert "an algorithm must be timed" not in str(error.value)


@pytest.mark.slow
def test_auto_takes_for_each_size_what_is_the_fastest_and_tells():
    chooser, seen = Chooser(torus(4, 4), LinkModel()), set()
    with Communicator(torus(4, 4), algorithm="auto") as comm:
        for n in (1, 1000, 8192, 300_000):
            best = chooser.choose(-(-n // 4)).best
            report = comm.all_reduce(np.ones((16, n), np.float32)).report
            assert (report.algorithm, report.schedule_hash) == (best.algorithm, best.schedule.hash)
            assert comm.schedule(size_bytes=4 * n).hash == best.schedule.hash
            seen.add(report.algorithm)
    assert len(seen) > 1


@pytest.mark.long
@needs_rtl
def test_auto_runs_the_dependency_that_it_chose_in_rtl():
    model, buffers = LinkModel(), make_buffers(5, 4, 8192, "float32")
    best = Chooser(torus(2, 2), model).choose(2048).best
    options = {"algorithm": "auto", "engine": "rtl", "link_model": model, "check": True}
    with Communicator(torus(2, 2), **options) as comm:
        report = comm.all_reduce(buffers).report
    assert (report.dependency, report.exact) == ("submessage", True) != model.dependency
    assert abs(report.cycles / best.cycles - 1) < 0.02


@pytest.mark.parametrize("n", [5, 64, 5000])
def test_with_auto_all_gather_undoes_reduce_scatter(n):
    buffers = np.arange(16 * n, dtype=np.int32).reshape(16, n)
    with Communicator(torus(4, 4), algorithm="auto") as comm:
        pieces = comm.reduce_scatter(buffers).wait()
        assert (comm.all_gather(pieces).wait() == buffers.sum(axis=0)).all()


def test_with_auto_all_gather_takes_what_reduce_scatter_takes():
    collectives = ("reduce_scatter", "all_gather")
    chooser = Chooser(hypercube(3), LinkModel())
    best = [chooser.choose(1024, each).best.algorithm for each in collectives]
    assert best == ["symmetric", "multitree"]
    with Communicator(hypercube(3), algorithm="auto") as comm:
        taken = [comm.schedule(each, size_bytes=16 << 10).algorithm for each in collectives]
    assert taken == ["symmetric"] * 2


@pytest.mark.parametrize(
    ("algorithm", "call", "error", "says"),
    [
        ("auto", lambda c: c.schedule(), ValueError, "be given where the algorithm is 'auto'"),
        (
            *("bidirectional_ring", lambda c: c.reduce_scatter(np.ones((4, 8), np.int32))),
            *(ScheduleError, "one flow rooted at each rank"),
        ),
    ],
)
def test_what_an_algorithm_does_not_have_is_refused(algorithm, call, error, says):
    with Communicator(torus(2, 2), algorithm=algorithm) as comm, pytest.raises(error, match=says):
        call(comm)


def test_after_close_nothing_can_be_started_and_what_was_started_is_done():
    with Communicator(ring(3)) as comm:
        work = comm.all_reduce(np.ones((3, 2), np.int32))
    assert work.done()
    refuses(RuntimeError, "must be open, not closed", comm.all_reduce, np.ones((3, 2), np.int32))
