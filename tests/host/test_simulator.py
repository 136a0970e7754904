"""Simulations run verified schedules, on data for which the order matters."""

import numpy as np
import pytest

from multitree import ScheduleError, torus
from multitree.host.simulator import Simulator, make_buffers
from multitree.sim.exact.engine import exact
from multitree.topology.algorithms.build import build
from multitree.topology.schedules.schedule import Schedule
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
    right = build(torus(2, 2), "multitree")
    columns = (right.step, right.op, right.flow, right.src, right.dst)
    wrong = Schedule.from_rows(
        right.topology,
        algorithm="wrong",
        collective="all_reduce",
        flow_offsets=right.flow_offsets,
        rows=np.stack(columns, axis=1)[:-1],
    )
    with Simulator(torus(2, 2), "analytic") as simulator, pytest.raises(ScheduleError):
        simulator.run(wrong, 1024)


def test_the_exact_engine_reports_its_trace_and_waits_out_steps_on_private_links():
    schedule, seen = build(torus(2, 2), "multitree"), []
    for lockstep in (False, True):
        with Simulator(torus(2, 2), "exact", lockstep=lockstep, progress=seen.append) as simulator:
            report = simulator.run(schedule, 1 << 16)
        trace = exact(schedule, 4096, lockstep=lockstep)
        assert (report.engine, report.cycles, report.exact) == ("exact", trace.cycles, None)
    assert seen and seen[0] <= report.cycles


def test_an_engine_without_a_clock_is_refused():
    with pytest.raises(ValueError, match=r"clock \(analytic, exact, rtl\), not 'numpy'"):
        Simulator(torus(2, 2), "numpy")
