"""Periodic schedules in RTL: interfaces repeat their tables, sums are exact."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from multitree import DeviceError, LinkModel, ScheduleError, mesh, ring, torus, verify
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import compile_table
from multitree.sim.faults.injection import DeadNode, MemoryChannel, StuckMemory
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.lowering import unrolled
from tests.sim.emulated import sums

MODEL = LinkModel(dependency="submessage")
run = partial(sums, model=MODEL)


def in_waves(topology, num_waves, period):
    """MultiTree, run in waves one after the other or, with a short period, in each other."""
    schedule = replace(build_multitree(topology), num_waves=num_waves, period=period)
    verify(schedule)
    return schedule


@pytest.mark.slow
@pytest.mark.parametrize("num_elements", [1, 100, 1000, 4099])
@pytest.mark.parametrize("num_waves, period", [(2, 8), (7, 3), (40, 2)])
def test_waves_sum_exactly_what_they_mean(num_waves, period, num_elements):
    (trace,) = run(in_waves(mesh(2, 3), num_waves, period), num_elements)
    assert trace.sent.shape == (num_waves, trace.schedule.num_transfers)


@pytest.mark.slow
@pytest.mark.parametrize("dependency", ["chunk", "submessage"])
@pytest.mark.parametrize("flow_control", ["message", "packet"])
def test_waves_run_in_every_mode(dependency, flow_control):
    model = LinkModel(dependency=dependency, flow_control=flow_control)
    run(in_waves(torus(2, 3), 5, 2), 2000, model=model)


@pytest.mark.slow
def test_the_waves_of_a_link_leave_in_the_order_of_their_steps():
    schedule = in_waves(mesh(2, 3), 9, 3)
    (trace,) = run(schedule, 3000)
    step = schedule.step + schedule.period * np.arange(schedule.num_waves)[:, None]
    links = schedule.route_links[schedule.route_offsets[:-1]]
    for link in np.unique(links):
        by_time = np.argsort(trace.sent[:, links == link].ravel())
        assert (np.diff(step[:, links == link].ravel()[by_time]) >= 0).all()


@pytest.mark.slow
def test_every_flit_goes_over_its_link_once_per_wave():
    schedule = in_waves(mesh(2, 3), 6, 4)
    (trace,) = run(schedule, 4 * 6 * 60)
    sizes = np.diff(schedule.chunks(6 * 60))[schedule.flow] * schedule.num_waves
    links = schedule.topology.num_links
    assert trace.link_flits.tolist() == np.bincount(schedule.route_links, sizes, links).tolist()


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("seed", range(4))
def test_collectives_in_waves_follow_each_other_without_a_barrier(seed):
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    # A buffer has room for eight chunks.
    schedule, num_flits = in_waves(mesh(2, 3), 6, 3), 6 * 6 * MODEL.buffer_flits_on(mesh(2, 3)) // 8
    skews = rng.integers(0, 6000, 6).tolist()
    run(schedule, 4 * num_flits, num_collectives=4, start_skew_cycles=skews)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [DeadNode, StuckMemory], ids=lambda fault: fault.__name__)
def test_a_watchdog_in_a_later_wave_names_row_flow_wave_and_what_was_awaited(fault):
    schedule = in_waves(mesh(2, 3), 8, 3)
    (trace,) = run(schedule, 3000)
    cycle = int(np.median(trace.sent[5]))
    where = () if fault is DeadNode else (1, MemoryChannel.WRITE)
    with pytest.raises(DeviceError, match=r"\(WATCHDOG\); awaited dependency") as caught:
        run(schedule, 3000, faults=[fault(1, cycle, *where)])
    text = str(caught.value)
    print(text)
    found = re.match(r"Rank (\d), port \d, row (\d+), flow (\d), wave (\d): ", text)
    rank, row, flow, wave = map(int, found.groups())
    table = compile_table(schedule, rank, 750, Config(wave_width=4))
    assert table.flow[row] == flow and 2 <= wave <= 7
    assert re.search(r"; Row \d+ \(step .*\) of wave [2-7] was", text)


@pytest.mark.slow
def test_waves_take_as_long_as_their_rows_written_out():
    schedule = in_waves(torus(2, 3), 6, 4)
    (repeated,), (written_out,) = (
        run(each, 4 * 6 * 240) for each in (schedule, unrolled(schedule))
    )
    assert abs(repeated.cycles / written_out.cycles - 1) < 0.02


def test_periodic_schedules_do_not_run_in_lockstep():
    config = Config(num_ports=2, wave_width=4)
    with pytest.raises(ScheduleError, match="Waves must be one in lockstep, not 3"):
        compile_table(in_waves(ring(4), 3, 2), 0, 100, config, lockstep=True)


def test_interfaces_that_do_not_repeat_tables_refuse_waves():
    with pytest.raises(ScheduleError, match="Rank 0: waves must be at most 1, not 3"):
        compile_table(in_waves(ring(4), 3, 2), 0, 100, Config(num_ports=2))
