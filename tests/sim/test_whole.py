"""On shared links messages go whole, and whoever asks for less is reported so."""

import numpy as np
import pytest

from multitree import ScheduleError, Topology, build, parse_topology
from multitree.sim.choice import Chooser
from multitree.sim.rtl.loads import Loader, Upcoming
from multitree.sim.timing.inputs import check_store_and_forward, shares_links
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import config_for, least_sizes


@pytest.mark.parametrize(
    ("spec", "algorithm", "shared"),
    [
        ("torus:4x4", "multitree", False),
        ("ring:8", "ring", False),
        ("ring:8", "swing", True),
        ("torus:4x4", "double_tree", True),
        ("fat_tree:2x2", "multitree", True),
    ],
)
def test_links_are_shared_where_a_route_takes_several(spec, algorithm, shared):
    assert shares_links(build(parse_topology(spec), algorithm)) is shared


def test_interfaces_of_a_network_with_a_switch_share_links_even_if_no_route_takes_it():
    links = [[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]]
    mixed = Topology("mixed", 2, 1, links, 16.0, 150.0)
    assert (np.diff(build(mixed, "multitree").route_offsets) == 1).all()
    assert shares_links(build(mixed, "multitree"))
    assert Chooser(mixed, LinkModel()).choose(64).best.dependency == "chunk"


@pytest.mark.parametrize(
    ("less", "says"),
    [
        ({"dependency": "submessage"}, "dependency must be chunk where links are shared, not 'sub"),
        ({"flow_control": "packet"}, "flow_control must be message where links are shared, not 'p"),
    ],
)
def test_less_than_whole_messages_is_refused_before_anything_is_loaded(less, says):
    schedule, model = build(parse_topology("fat_tree:2x2"), "multitree"), LinkModel(**less)
    config = config_for(schedule.topology, model, **least_sizes(schedule, 8))
    loader = Loader(schedule.topology, config, model, MemoryTiming())
    with pytest.raises(ScheduleError, match=f"fat_tree:2x2: {says}"):
        loader.load(Upcoming(schedule, 32, "int32"))
    with pytest.raises(ScheduleError, match=says):
        check_store_and_forward(schedule, model)
    check_store_and_forward(schedule, LinkModel())


def test_a_choice_of_less_than_whole_messages_leaves_out_who_shares_links():
    topology = parse_topology("ring:8")
    problems = Chooser(topology, LinkModel(), dependencies=["submessage"]).choose(64).problems
    assert "dependency must be chunk where links are shared" in problems["swing"]
    problems = Chooser(topology, LinkModel(flow_control="packet")).choose(64).problems
    assert "flow_control must be message where links are shared" in problems["swing"]
