"""Schedules of several waves: what they mean is what they say written out."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import ScheduleError, Topology, build, mesh, parse_topology, ring, torus
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.checks.verify import termination_cycles, verify
from multitree.topology.lowering import unrolled
from multitree.topology.schedules.execute import execute, flow_ranges
from multitree.topology.schedules.schedule import phase_of
from tests.refusals import refuses


def waves_on(spec, num_waves, period):
    """MultiTree, run in waves."""
    built = build_multitree(parse_topology(spec))
    return replace(built, num_waves=num_waves, period=period)


@pytest.mark.parametrize("spec", ["ring:5", "mesh:3x3", "torus:4x4"])
@pytest.mark.parametrize("num_waves", [2, 3, 7])
def test_waves_add_as_their_rows_written_out_do(spec, num_waves):
    schedule = waves_on(spec, num_waves, 3)
    num_ranks = schedule.topology.num_ranks
    buffers = np.random.default_rng(5).standard_normal((num_ranks, 4 * num_waves * 13), np.float32)
    both = execute(schedule, buffers), execute(unrolled(schedule), buffers)
    np.testing.assert_array_equal(*(each.view(np.uint32) for each in both))


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 26, 27, 28, 29, 1001])
def test_waves_sum_buffers_of_any_length(length):
    schedule = waves_on("ring:4", 7, 2)
    buffers = np.arange(4 * length, dtype=np.int32).reshape(4, length)
    result = execute(schedule, buffers)
    assert result.shape == buffers.shape and result.flags["C_CONTIGUOUS"]
    np.testing.assert_array_equal(result, np.tile(buffers.sum(0, dtype=np.int32), (4, 1)))


def test_waves_are_slices_of_the_padded_buffer_one_behind_the_other():
    schedule = waves_on("ring:4", 3, 5)
    assert [schedule.padded(flits) for flits in (0, 1, 3, 4, 100)] == [0, 3, 3, 6, 102]
    assert schedule.chunks(100).tolist() == [0, 8, 17, 25, 34]
    assert replace(schedule, num_waves=1, period=1).chunks(100).tolist() == [0, 25, 50, 75, 100]


def test_one_wave_is_itself_written_out():
    schedule = build_multitree(ring(4))
    assert unrolled(schedule) is schedule


@pytest.mark.parametrize("period", range(1, 12))
def test_the_link_load_is_that_of_the_rows_written_out(period):
    schedule = waves_on("mesh:3x3", 12, period)
    found, written_out = verify(schedule), verify(unrolled(schedule))
    assert found.max_link_load == written_out.max_link_load
    assert found.contention_free == written_out.contention_free == (found.max_link_load == 1)


@pytest.mark.parametrize("period", range(3, 16))
def test_slow_links_are_held_into_the_next_period(period):
    links = [[0, 1], [1, 0], [1, 2], [2, 1]]
    line = Topology("line", 3, 0, links, [16, 16, 4, 4], 150.0)
    schedule = replace(build_multitree(line), num_waves=9, period=period)
    free = verify(schedule).contention_free
    assert free == verify(unrolled(schedule)).contention_free
    assert free == (period >= 12)  # three chunks a wave over the slow link, four steps each


def test_termination_counts_the_steps_of_all_waves():
    one = build_multitree(torus(4, 4))
    waves = replace(one, num_waves=6, period=9)
    figures = {"latency_cycles": 150, "overhead_cycles": 30}
    of_one = termination_cycles(one, num_flits=1600, **figures)
    of_all = termination_cycles(waves, num_flits=6 * 1600, **figures)
    assert of_all * one.num_steps == of_one * (one.num_steps + 5 * 9)


def test_ranks_own_a_part_only_where_there_is_one_wave():
    part = phase_of(build_multitree(ring(4)), "reduce_scatter")
    refuses(ScheduleError, "Waves of reduce_scatter must be one, not 2", replace, part, num_waves=2)
    with pytest.raises(ScheduleError, match="Waves must be one where a flow has one chunk, not 2"):
        flow_ranges(replace(build_multitree(ring(4)), num_waves=2), 16)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_rooted_collectives_run_in_waves(collective):
    built = build(mesh(2, 3), "multitree", collective, root=4)
    schedule = replace(built, num_waves=4, period=3)
    buffers = np.random.default_rng(1).integers(0, 99, (6, 333), dtype=np.int32)
    verify(schedule)
    found = execute(schedule, buffers)
    if collective == "broadcast":
        np.testing.assert_array_equal(found, np.tile(buffers[4], (6, 1)))
    else:
        np.testing.assert_array_equal(found[4], buffers.sum(0, dtype=np.int32))


def test_waves_that_end_behind_the_last_step_there_is_are_not_written_out():
    long = replace(build(ring(2), "multitree"), num_waves=65535, period=65535)
    refuses(ValueError, "Steps must", unrolled, long)
