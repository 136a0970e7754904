"""A Communicator's invariant sums: bits, ownership, reports, and what is refused."""

from dataclasses import fields

import numpy as np
import pytest

from multitree import Communicator, EngineError, LinkModel, mesh, parse_topology, ring, torus
from multitree.host import engines
from multitree.host.buffers import to_array, to_tensor
from multitree.host.invariant_sums import InvariantSum
from multitree.nic.driver.commands import PortCounts
from tests.emulation import needs_rtl
from tests.host.values import bits, make_buffers, odd_buffers

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so its sums are untested")

from multitree.host.tensors import invariant  # noqa: E402
from tests.host.tensors.test_invariant import summed  # noqa: E402

SIX_RANKS = ("mesh:3x2", "ring:6", "full:6", "fat_tree:2x3", "bigraph:3x2")


def invariant_on(topology, **options):
    return Communicator(topology, reproducible="invariant", check=True, **options)


def expected(buffers, op="sum"):
    """What the pure functions give, without a schedule."""
    return to_array(summed(to_tensor(buffers.copy()), op))


def same(found, wanted):
    return (bits(found) == bits(wanted)).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_no_topology_algorithm_engine_or_length_changes_a_bit(engine, dtype):
    buffers = odd_buffers(101, 6, 101, dtype)
    before = buffers.copy()
    wanted = {op: expected(buffers, op) for op in ("sum", "average")}
    default = set()
    for spec in SIX_RANKS:
        topology = parse_topology(spec)
        with Communicator(topology) as comm:
            default.add(comm.all_reduce(buffers).wait()[0].tobytes())
        with invariant_on(topology, engine=engine) as comm:
            for op in wanted:
                work = comm.all_reduce(buffers, op=op)
                assert all(same(row, wanted[op]) for row in work.wait())
                assert work.report.exact is True
            longer = comm.all_reduce(np.pad(buffers, ((0, 0), (0, 60)))).wait()
            assert same(longer[0, :101], wanted["sum"])
    assert (bits(buffers) == bits(before)).all()
    assert len(default) > 1


@pytest.mark.dear
@pytest.mark.parametrize("algorithm", ["multitree", pytest.param("auto", marks=pytest.mark.slow)])
@pytest.mark.parametrize("flit_bytes", [16, 64])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_each_rank_keeps_the_part_of_the_sum_that_it_owns(dtype, flit_bytes, algorithm):
    model = LinkModel(flit_bytes=flit_bytes)
    options = {"algorithm": algorithm, "link_model": model}
    for n in (0, 1, 3, 61, 1000):
        buffers = odd_buffers(n, 6, n, dtype)
        with Communicator(mesh(3, 2), **options) as comm:
            lengths = [len(part) for part in comm.reduce_scatter(buffers).wait()]
        with invariant_on(mesh(3, 2), **options) as comm:
            for op in ("sum", "avg"):
                parts = comm.reduce_scatter(buffers, op=op).wait()
                assert [len(part) for part in parts] == lengths
                whole = comm.all_reduce(buffers, op=op).wait()
                assert (bits(np.concatenate(parts)) == bits(whole[0])).all()
                assert (bits(comm.all_gather(parts).wait()) == bits(whole)).all()


def test_the_root_of_a_reduce_gets_the_sum():
    buffers = odd_buffers(101, 6, 101)
    with invariant_on(mesh(3, 2)) as comm:
        for op in ("sum", "average"):
            reduced = comm.reduce(buffers, root=4, op=op).wait()
            assert same(reduced[4], expected(buffers, op))


@pytest.mark.parametrize("stacked", [True, False])
def test_the_result_has_the_form_of_the_input(stacked):
    tensor = torch.from_numpy(make_buffers(1, 6, 60)).view(6, 5, 12)
    before = tensor.clone()
    with invariant_on(mesh(3, 2)) as comm:
        result = comm.all_reduce(tensor if stacked else list(tensor)).wait()
        assert isinstance(result, torch.Tensor if stacked else list)
        assert all(row.shape == (5, 12) and row.dtype == torch.float32 for row in result)
        array = comm.all_reduce(tensor.numpy()).wait()
        assert isinstance(array, np.ndarray)
        assert (bits(np.stack([row.numpy() for row in result])) == bits(array)).all()
    assert (tensor == before).all()


def test_what_no_order_changes_is_one_collective_as_ever():
    buffers = odd_buffers(61, 6, 61)
    integers = make_buffers(1, 6, 61, "int32")
    with invariant_on(mesh(3, 2)) as comm, Communicator(mesh(3, 2)) as default:
        for name, given, options in (
            ("all_reduce", integers, {}),
            ("all_reduce", buffers, {"op": "max"}),
            ("reduce_scatter", buffers, {"op": "max"}),
            ("broadcast", buffers, {"root": 1}),
        ):
            work, usual = (getattr(each, name)(given, **options) for each in (comm, default))
            assert work.report.stages == ()
            for one, other in zip(work.wait(), usual.wait(), strict=True):
                assert (bits(one) == bits(other)).all()


def test_the_report_names_both_collectives_and_adds_their_time():
    with invariant_on(mesh(3, 2)) as comm:
        report = comm.reduce_scatter(make_buffers(1, 6, 96)).report
        assert (report.collective, report.size_bytes) == ("reduce_scatter", 4 * 96)
        assert report.schedule_hash == comm.schedule("reduce_scatter").hash
        keys, sums = report.stages
        assert (keys.collective, keys.size_bytes) == ("all_reduce", 4 * 96)
        assert (sums.collective, sums.size_bytes) == ("reduce_scatter", 8 * 96)
        assert report.wall_seconds > keys.wall_seconds + sums.wall_seconds
        assert "invariant: all_reduce of 384 bytes and reduce_scatter of 768" in str(report)
        assert report.cycles is None and report.ports is None


def test_a_stage_that_is_not_exact_makes_the_sum_not_exact(monkeypatch):
    verdicts = iter([False, True])
    monkeypatch.setattr("multitree.host.runner._is_exact", lambda *_: next(verdicts))
    with invariant_on(ring(2)) as comm:
        assert comm.all_reduce(np.ones((2, 8), np.float32)).report.exact is False
    with Communicator(ring(2), reproducible="invariant") as comm:
        assert comm.all_reduce(np.ones((2, 8), np.float32)).report.exact is None


@pytest.mark.long
@pytest.mark.every_set
@needs_rtl
@pytest.mark.parametrize("spec", ["torus:2x2", "fat_tree:2x2"])
def test_cycles_and_stalls_in_rtl_are_those_of_both_collectives(spec):
    buffers = odd_buffers(101, 4, 101)
    wanted = expected(buffers)
    with invariant_on(parse_topology(spec), engine="rtl") as comm:
        works = [comm.all_reduce(buffers) for _ in range(3)]
        scattered = comm.reduce_scatter(buffers)
        for work in works:
            assert all(same(row, wanted) for row in work.wait())
        assert same(np.concatenate(scattered.wait()), wanted)
        # What follows is loaded meanwhile, within a sum and from sum to sum.
        assert [work.report.stages[1].loading_cycles for work in works] == [0, 0, 0]
        assert works[2].report.stages[0].loading_cycles == 0
        for report in (*(work.report for work in works), scattered.report):
            keys, sums = report.stages
            assert report.exact is True
            assert report.cycles == keys.cycles + sums.cycles
            assert report.loading_cycles == keys.loading_cycles + sums.loading_cycles
            busy = sum(stage.link_utilization * stage.cycles for stage in report.stages)
            assert report.link_utilization == pytest.approx(busy / report.cycles)
            for field in fields(PortCounts):
                both = [getattr(stage.totals, field.name) for stage in report.stages]
                together = min(both) if field.name == "credits_low" else sum(both)
                assert getattr(report.totals, field.name) == together


def test_more_ranks_than_limbs_have_room_for_are_refused(monkeypatch):
    monkeypatch.setattr(invariant, "MOST_RANKS", 3)
    with (
        invariant_on(torus(2, 2)) as comm,
        pytest.raises(ValueError, match="Ranks of an invariant sum must be at most 3, not 4"),
    ):
        comm.all_reduce(np.ones((4, 8), np.float32))


def test_a_level_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="Reproducible must be one of schedule, invariant, not 1"):
        Communicator(ring(2), reproducible=1)


def test_without_pytorch_the_level_is_refused_and_none_put_in_its_place(monkeypatch):
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"cannot be invariant here: PyTorch .* 'schedule'"):
        Communicator(ring(2), reproducible="invariant")


def test_nothing_is_taken_from_memory_for_a_sum_that_waits():
    class NoPlan:
        owned = schedule = None

    given = ("all_reduce", np.ones((4, 8), np.float32), "sum")
    options = {"plans": lambda *_: NoPlan(), "root": None, "link_model": LinkModel()}
    waiting = InvariantSum(*given, **options)
    assert waiting.first.memory.is_meta and waiting.first.memory.shape == (4, 8)
