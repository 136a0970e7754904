"""The analytic engine behind the door: times of a network or a schedule."""

from dataclasses import replace

import pytest

from multitree import LinkModel, Schedule, ScheduleError, Trace, build, estimate, fat_tree, torus
from multitree.sim.analytic.engine import analytic
from multitree.sim.choice import Chooser
from tests.refusals import refuses

SIZE_BYTES = 100_000
NUM_FLITS = 6_250


@pytest.mark.parametrize("dependency", ["chunk", "submessage"])
@pytest.mark.parametrize(("collective", "root"), [("all_reduce", None), ("broadcast", 3)])
def test_a_network_and_its_schedule_are_timed_as_the_engine_times_them(
    collective, root, dependency
):
    model = LinkModel(dependency=dependency, clock_ghz=2.0)
    schedule = build(torus(4, 4), "ring", collective, root)
    expected = analytic(schedule, NUM_FLITS, model)
    asked = {"algorithm": "ring", "collective": collective, "root": root}
    for found in (
        estimate(torus(4, 4), SIZE_BYTES, link_model=model, **asked),
        estimate(schedule, SIZE_BYTES, link_model=model),
    ):
        assert isinstance(found.trace, Trace)
        assert (found.trace.sent == expected.sent).all()
        assert (found.trace.arrived == expected.arrived).all()
        assert found.cycles == expected.cycles
        assert found.time_us == expected.cycles / 2000
        assert found.trace.schedule.hash == schedule.hash


def test_multitree_s_all_reduce_is_timed_unless_another_is_asked_for():
    found = estimate(torus(4, 4), 1 << 20)
    schedule = found.trace.schedule
    assert (schedule.algorithm, schedule.collective) == ("multitree", "all_reduce")
    assert found.trace.num_flits == 65_536


@pytest.mark.slow
@pytest.mark.parametrize("size_bytes", [64, 1 << 20])
def test_auto_is_the_best_candidate(size_bytes):
    best = Chooser(torus(4, 4), LinkModel()).choose(size_bytes // 16).best
    found = estimate(torus(4, 4), size_bytes, algorithm="auto")
    assert found.cycles == best.cycles
    assert found.link_model.dependency == best.dependency
    assert found.trace.schedule.hash == best.schedule.hash


def test_forests_are_suited_to_the_size():
    small, large = (
        estimate(torus(4, 4), size, algorithm="forest").trace.schedule for size in (256, 1 << 20)
    )
    assert small.num_waves == 1 < large.num_waves


def test_lockstep_is_timed_on_shared_links():
    loose, locked = (estimate(fat_tree(2, 2), 4096, lockstep=lockstep) for lockstep in (0, 1))
    assert locked.cycles > loose.cycles


def test_ranks_that_start_late_make_it_longer():
    late = [0] * 15 + [700]
    found = estimate(torus(4, 4), SIZE_BYTES, start=late)
    assert found.trace.start.tolist() == late
    assert 0 < found.cycles - estimate(torus(4, 4), SIZE_BYTES).cycles <= 700


def test_nothing_takes_the_messages_that_say_so():
    assert 0 < estimate(torus(4, 4), 0).cycles < estimate(torus(4, 4), 1 << 20).cycles


@pytest.mark.parametrize(
    ("what", "size", "options", "error", "says"),
    [
        ("torus:4x4", 64, {}, TypeError, "must be a Topology or a Schedule, not 'torus:4x4'"),
        (torus(2, 2), 1.5, {}, TypeError, r"an int, in bytes, not 1\.5"),
        (torus(2, 2), True, {}, TypeError, "an int, in bytes, not True"),
        (torus(2, 2), -16, {}, ValueError, "at least 0 bytes, not -16"),
        (torus(2, 2), 64, {"algorithm": "fastest"}, ScheduleError, "not 'fastest'"),
        (torus(2, 2), 64, {"collective": "broadcast"}, ScheduleError, "Root must be"),
        (torus(2, 2), 64, {"algorithm": "auto", "lockstep": True}, ValueError, "named in lockstep"),
        (build(torus(2, 2), "ring"), 64, {"root": 0}, ValueError, "Root must be the schedule's"),
        (build(torus(2, 2), "ring"), 64, {"algorithm": "ring"}, ValueError, "not 'ring'"),
    ],
)
def test_what_cannot_be_timed_is_refused_in_one_sentence(what, size, options, error, says):
    refuses(error, says, estimate, what, size, **options)


def test_a_schedule_that_is_wrong_is_not_timed():
    right = build(torus(2, 2), "ring")
    wrong: Schedule = replace(right, dst=right.dst[::-1])
    refuses(ScheduleError, "Row", estimate, wrong, 64)
