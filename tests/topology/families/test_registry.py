"""The registry of families: specs that are read, routes, and how each is drawn."""

import numpy as np
import pytest

from multitree import build, parse_topology
from multitree.host.view.placement import LAYOUTS, layout_of
from multitree.topology.checks.proofs import check_routes
from multitree.topology.families.registry import FAMILIES, SPECS
from multitree.topology.routing.default_routes import routes
from tests.topology.graphs import copy_of, over
from tests.topology.routing.test_routing import all_pairs, checked_routes

EXAMPLES = [example for family in FAMILIES.values() for example in family.examples]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_entry_is_found_by_its_name_and_by_the_word_of_its_specs(family):
    entry = FAMILIES[family]
    for example in entry.examples:
        topology = parse_topology(example)
        word, _, sizes = example.partition(":")
        assert (topology.family, topology.name) == (entry.name, example)
        assert SPECS[word] is entry
        assert len(sizes.split("x") if sizes else ()) in entry.sizes
    assert entry.name == family and entry.layout in LAYOUTS


@over(*EXAMPLES)
def test_routes_of_an_example_are_paths_in_which_none_wait_in_a_circle(topology):
    _, _, classes = checked_routes(topology)
    assert classes.min() >= 0


@over(*EXAMPLES)
def test_an_example_is_drawn_with_nodes_apart(topology):
    layout = layout_of(topology)
    places = np.stack([layout.x, layout.y], axis=1)
    apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    assert apart[~np.eye(len(places), dtype=bool)].min() > 2 * layout.radius - 1e-9


@over(*EXAMPLES)
def test_a_schedule_over_the_routes_of_an_example_waits_in_no_circle(topology):
    check_routes(build(topology, "double_tree"))


def test_a_graph_of_no_family_has_up_down_routes_and_is_drawn_by_distances():
    torus = parse_topology("torus:3x3")
    copy, pairs = copy_of(torus), all_pairs(torus)
    assert copy.family not in FAMILIES
    assert routes(copy, *pairs)[1].tolist() != routes(torus, *pairs)[1].tolist()
    assert not np.array_equal(layout_of(copy).x, layout_of(torus).x)
