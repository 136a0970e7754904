"""The choice of algorithm, dependency granularity and sibling order for a size."""

from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest

from multitree import LinkModel, ScheduleError, build, parse_topology, torus
from multitree.nic.driver.commands import DEPENDENCIES
from multitree.sim.analytic.engine import analytic
from multitree.sim.choice import Candidate, Choice, Chooser
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.rtl.session import RtlSession
from multitree.topology.algorithms.registry import ALGORITHMS, SIZED, lockstep_note
from multitree.topology.errors import within
from multitree.topology.schedules.trees import LARGE_CHUNKS, SMALL_CHUNKS
from tests.emulation import needs_rtl
from tests.sim.emulated import checked, checked_each, normals

MODEL = LinkModel()
MODELS = [replace(MODEL, dependency=dependency) for dependency in DEPENDENCIES]
SIZES_FLITS = (1, 256, 2048, 65536, 2**26)


def all_ways(topology, num_flits):
    """Cycles of everything that can be timed, each on its own; a forest over switches cannot."""
    for algorithm, model in product(ALGORITHMS, MODELS):
        cost_model = model.cost_model(topology, num_flits)
        orders = (None,) if algorithm in SIZED else (None, SMALL_CHUNKS, LARGE_CHUNKS)
        with suppress(ScheduleError):
            built = build(topology, algorithm, cost_model=cost_model)
            for times in orders:
                schedule = built if times is None else built.reordered(times)
                yield analytic(schedule, num_flits, model).cycles


@pytest.mark.long
@pytest.mark.parametrize("spec", ["torus:2x3", "mesh:3x3", "ring:5", "hypercube:3", "full:5"])
def test_nothing_that_can_be_timed_is_faster_than_the_best(spec):
    topology = parse_topology(spec)
    chooser = Chooser(topology, MODEL)
    for num_flits in SIZES_FLITS:
        best = chooser.choose(num_flits).best
        assert best.cycles == min(all_ways(topology, num_flits))


@pytest.mark.slow
def test_a_candidate_takes_its_schedule_its_dependency_and_its_cycles():
    choice = Chooser(torus(4, 4), MODEL).choose(2048)
    for each in choice.candidates:
        model = replace(MODEL, dependency=each.dependency)
        assert each.cycles == analytic(each.schedule, 2048, model).cycles
        times = {"small": SMALL_CHUNKS, "large": LARGE_CHUNKS}.get(each.sibling_order)
        cost_model = model.cost_model(torus(4, 4), 2048)
        built = build(torus(4, 4), each.algorithm, cost_model=cost_model)
        assert each.schedule.hash == (built.reordered(times) if times else built).hash
    cycles = [each.cycles for each in choice.candidates]
    assert cycles == sorted(cycles)
    named = {each.algorithm for each in choice.candidates}
    assert named | choice.problems.keys() == set(ALGORITHMS)
    assert "BiGraph" in choice.problems["hdrm"]


def test_what_takes_longer_to_time_comes_later_and_a_limit_holds_around_all():
    options = {"algorithms": ["double_tree", "multitree"], "dependencies": ["chunk"]}
    found = []
    chooser = Chooser(torus(3, 3), MODEL, found=found.append, **options)
    assert {*chooser.choose(64).candidates} == {*found}
    assert [each.algorithm for each in found][:2] == ["multitree", "double_tree"]
    with pytest.raises(TimeoutError, match=r"of 0\.01 CPU s"), within("all", 0.01):
        while True:
            Chooser(torus(3, 3), MODEL, **options).choose(64)


@pytest.mark.slow
def test_the_size_decides():
    chooser = Chooser(torus(4, 4), MODEL)
    small, large = (chooser.choose(num_flits).best for num_flits in (256, 65536))
    assert (small.algorithm, large.algorithm) == ("swing", "bidirectional_ring_2d")


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("spec", ["dgx2", "dgx_a100:2"])
def test_behind_switch_planes_direct_is_chosen_and_suited_to_the_size(spec):
    topology = parse_topology(spec)
    chooser = Chooser(topology, MODEL, algorithms=["multitree", "direct", "halving_doubling"])
    for num_flits in (2**14, 2**16):
        best = chooser.choose(num_flits).best
        cost_model = MODEL.cost_model(topology, num_flits)
        suited = build(topology, "direct", cost_model=cost_model)
        assert (best.algorithm, best.dependency) == ("direct", "chunk")
        assert best.schedule.hash == suited.hash


def test_what_is_left_out_over_switches_is_so_by_the_note_that_a_run_of_it_has():
    topology = parse_topology("fat_tree:2x2")
    choice = Chooser(topology, MODEL).choose(4096)
    assert "forest" not in {each.algorithm for each in choice.candidates}
    note = lockstep_note("forest", topology.num_switches, lockstep=False)
    assert note in choice.problems["forest"] and "not tried" in choice.problems["forest"]


def test_only_those_named_take_part():
    options = {"algorithms": ["ring", "multitree"], "dependencies": ["chunk"]}
    choice = Chooser(torus(4, 4), MODEL, **options).choose(2048)
    assert {each.algorithm for each in choice.candidates} == {"ring", "multitree"}
    assert {each.dependency for each in choice.candidates} == {"chunk"}


@pytest.mark.slow
def test_other_collectives_are_chosen_for_themselves():
    chooser = Chooser(torus(4, 4), MODEL)
    for root in (3, 5):
        best = chooser.choose(65536, "broadcast", root).best
        assert (best.schedule.collective, best.schedule.root) == ("broadcast", root)


def test_where_nothing_can_be_timed_the_first_reason_is_reported():
    with pytest.raises(ScheduleError, match="must be timed, not none: symmetric must have a ring"):
        Chooser(parse_topology("mesh:3x3"), MODEL, algorithms=["symmetric", "swing"]).choose(8)


def test_the_reason_compares_with_what_differs_in_one_way():
    schedule = build(torus(2, 2), "ring")
    ways = [
        ("ring", "submessage", "built", 100),
        ("ring", "submessage", "large", 100),
        ("swing", "submessage", "built", 103),
        ("ring", "chunk", "large", 104),
        ("ring", "chunk", "built", 112),
    ]
    choice = Choice(tuple(Candidate(*way, schedule, cycles) for *way, cycles in ways), {})
    assert choice.reason == (
        "ring, dependency submessage, siblings as built: swing takes 3.0 % more cycles; "
        "dependency chunk takes 12.0 % more cycles; siblings as large takes as many cycles"
    )
    alone = Choice(choice.candidates[:1], {})
    assert alone.reason.endswith("siblings as built: nothing else can be timed")


@needs_rtl
def test_collectives_with_different_dependencies_follow_each_other_in_rtl():
    schedule, n = build(torus(2, 2), "multitree"), 4000
    buffers = normals(schedule, n, 3)
    with RtlSession(torus(2, 2), num_rows=16, num_flows=4, memory_flits=n) as session:
        queue = [
            Upcoming(schedule, n, "float32", dependency=dependency)
            for dependency in ("submessage", "chunk", None)
        ]
        checked_each(session, queue, buffers)
        cycles = {
            dependency: checked(session, schedule, buffers[:1], dependency=dependency)[0].cycles
            for dependency in (None, *DEPENDENCIES)
        }
    assert cycles["submessage"] < cycles["chunk"] == cycles[None]
    predicted = analytic(schedule, n // 4, LinkModel(dependency="submessage")).cycles
    assert cycles["submessage"] == pytest.approx(predicted, rel=0.02)
