"""Simulations run verified schedules, on data for which the order matters."""

import numpy as np
import pytest

from multitree import LinkModel, ScheduleError, build, exact, mesh, ring, torus
from multitree.host.engines import CLOCKED_ENGINES, ENGINES, why_not
from multitree.host.runner import Runner, Seeded, make_buffers
from multitree.nic.driver.commands import DEPENDENCIES
from tests.emulation import needs_rtl
from tests.host.tensors.schedules import without_a_row
from tests.host.values import bits


def test_sums_of_the_data_depend_on_the_order():
    buffers = make_buffers(1, 16, 1000, "float32")
    ascending = np.add.accumulate(buffers, axis=0)[-1]
    descending = np.add.accumulate(buffers[::-1], axis=0)[-1]
    assert (bits(ascending) != bits(descending)).mean() > 0.5
    exponents = np.frexp(buffers)[1]
    assert exponents.min() < -18 and exponents.max() > 18


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
def test_equal_seeds_give_equal_data_of_the_type(dtype):
    buffers = make_buffers(7, 3, 5, dtype)
    assert (buffers.shape, buffers.dtype) == ((3, 5), np.dtype(dtype))
    assert (buffers == make_buffers(7, 3, 5, dtype)).all()
    assert (buffers != make_buffers(8, 3, 5, dtype)).any()


def test_integers_use_all_32_bits():
    buffers = make_buffers(1, 4, 1000, "int32")
    assert buffers.min() < -(2**30) and buffers.max() > 2**30


def test_a_schedule_that_is_wrong_is_not_simulated():
    wrong = without_a_row(build(torus(2, 2), "multitree"), -1)
    with Runner.timed(torus(2, 2), "analytic") as runner, pytest.raises(ScheduleError):
        runner.simulate(wrong, 1024)


def test_the_exact_engine_reports_its_trace_and_waits_out_steps_on_private_links():
    schedule, seen = build(torus(2, 2), "multitree"), []
    for lockstep in (False, True):
        with Runner.timed(torus(2, 2), "exact", lockstep=lockstep, progress=seen.append) as runner:
            report, _ = runner.simulate(schedule, 1 << 16)
        trace = exact(schedule, 4096, lockstep=lockstep)
        assert (report.engine, report.cycles, report.exact) == ("exact", trace.cycles, None)
    assert seen and seen[0] <= report.cycles


def test_an_engine_has_the_data_and_the_clock_that_it_says_it_has():
    for name in filter(lambda name: why_not(name) is None, {*ENGINES, *CLOCKED_ENGINES}):
        with Runner(ring(3), name, must_time=name in CLOCKED_ENGINES) as runner:
            data = Seeded().of(build(ring(3), "ring"), 64)
            outcome, report = runner.run(data)
        assert runner.engine.data == (name in ENGINES) == (outcome.memory is not None)
        assert runner.engine.clock == (name in CLOCKED_ENGINES) == (outcome.cycles is not None)
        assert runner.engine.clock == (outcome.trace is not None) == (report.cycles is not None)


def test_an_engine_without_a_clock_is_refused():
    with pytest.raises(ValueError, match=r"clock \(analytic, exact, rtl\), not 'numpy'"):
        Runner.timed(torus(2, 2), "numpy")


@pytest.mark.slow
@needs_rtl
@pytest.mark.parametrize("dependency", DEPENDENCIES)
@pytest.mark.parametrize("algorithm", ["ring_2d", "tto"])
def test_baselines_of_meshes_run_in_rtl_as_fast_as_is_said(algorithm, dependency):
    topology, model = mesh(3, 4), LinkModel(dependency=dependency)
    for size_bytes in (1000, 40_000):
        cost_model = model.cost_model(topology, model.num_flits(size_bytes, 1))
        schedule = build(topology, algorithm, cost_model=cost_model)
        cycles = {}
        for engine in CLOCKED_ENGINES:
            with Runner.timed(topology, engine, link_model=model) as runner:
                report, _ = runner.simulate(schedule, size_bytes)
            assert report.exact is not False and report.schedule_hash == schedule.hash
            cycles[engine] = report.cycles
        assert cycles["analytic"] == pytest.approx(cycles["rtl"], rel=0.03)
