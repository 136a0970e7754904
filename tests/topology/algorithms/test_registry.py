"""The registry of algorithms: builders are there, and entries can be told apart."""

import inspect
import re

import pytest
from docs.tables import REFERENCE

from multitree import ScheduleError, build, parse_topology
from multitree.topology.algorithms.registry import ALGORITHMS, COMPARED, Algorithm, check_algorithm

SPECS = ("torus:4x4", "mesh:3x3", "fat_tree:2x2", "bigraph:2x2")


def first_schedule(algorithm):
    for spec in SPECS:
        try:
            return build(parse_topology(spec), algorithm)
        except ScheduleError:
            continue
    raise AssertionError(f"{algorithm} has no schedule on {SPECS}")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_entry_builds_schedules_that_carry_its_name(algorithm):
    entry = ALGORITHMS[algorithm]
    assert entry.name == algorithm == first_schedule(algorithm).algorithm
    assert entry.build.__name__.endswith(algorithm)
    assert (entry.build_implicit is None) == (entry.implicit is None)
    assert entry.sized == ("cost_model" in inspect.signature(entry.build).parameters)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_entry_has_a_section_with_its_source_in_the_reference(algorithm):
    page = (REFERENCE / "algorithms.md").read_text()
    assert re.search(rf"^##.*\b{algorithm}\b", page, re.M)


def test_no_two_algorithms_look_alike_in_a_plot():
    colours = [entry.colour for entry in ALGORITHMS.values()]
    assert len(set(colours)) == len(colours)


def test_what_is_compared_and_what_is_unknown():
    assert COMPARED == ("multitree", "ring", "bidirectional_ring")
    assert check_algorithm("swing") == "swing"
    with pytest.raises(ScheduleError, match=r"one of multitree, ring, .*, not 'rnig'"):
        check_algorithm("rnig")


def test_a_builder_is_imported_when_it_is_called():
    lost = Algorithm("lost", "multitree.topology.algorithms.lost:build_lost", *[""] * 6)
    with pytest.raises(ModuleNotFoundError, match="lost"):
        lost.build  # noqa: B018
