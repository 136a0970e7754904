"""Three trees of a mesh: two edges on each pair of links, 2/3 of a buffer's time."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import LinkModel, ScheduleError, build, mesh, verify
from multitree.sim.analytic.engine import analytic
from multitree.topology.algorithms.tto import build_tto, three_trees
from tests.repository import ROOT
from tests.topology.oracles import check_packing, does_its_collective, rooted

SIDES = [(3, 3), (3, 7), (4, 4), (5, 3), (6, 5), (8, 8)]


@pytest.mark.parametrize("dims", SIDES)
def test_three_spanning_trees_have_two_edges_on_a_pair_of_links_at_most(dims):
    topology = mesh(*dims)
    packing = three_trees(topology)
    check_packing(packing)
    assert (packing.num_trees, packing.period, packing.link_loads.max()) == (3, 2, 2)
    # With one edge on each pair they would not fit.
    assert 3 * (topology.num_ranks - 1) > topology.num_links // 2


@pytest.mark.parametrize("dims", SIDES)
def test_trees_are_hardly_higher_than_the_way_from_the_middle_to_a_corner(dims):
    assert three_trees(mesh(*dims)).heights.max() <= sum(side // 2 for side in dims) + 2


@pytest.mark.parametrize("dims", SIDES)
def test_reductions_overlap_gathers_without_contention(dims):
    schedule = build_tto(mesh(*dims))
    report = verify(schedule)
    assert report.contention_free and report.causal
    assert (schedule.num_flows, schedule.period, schedule.algorithm) == (3, 2, "tto")
    assert schedule.num_waves > 8
    assert does_its_collective(schedule)


def drawn(packing):
    """The trees side by side, as the documents have them."""
    height, width = packing.topology.dims
    pictures = []
    for parents in packing.parents.tolist():
        joined = {frozenset(ends) for ends in enumerate(parents)}

        def sign(rank, other, line, joined=joined):
            return line if frozenset((rank, other)) in joined else " "

        lines = []
        for start in range(0, height * width, width):
            line = range(start, start + width)
            lines.append("".join("o" + sign(rank, rank + 1, "-") for rank in line))
            lines.append("".join(sign(rank, rank + width, "|") + " " for rank in line))
        pictures.append(lines[:-1])
    return ["      ".join(line).rstrip() for line in zip(*pictures, strict=True)]


def test_the_trees_are_drawn_as_they_are():
    picture = drawn(three_trees(mesh(4, 5)))
    page = (ROOT / "docs" / "reference" / "algorithms.md").read_text()
    assert "\n".join(picture) in page


@pytest.mark.parametrize("dims", [(4, 4), (8, 8)])
def test_a_large_buffer_takes_two_thirds_of_its_time_on_a_link(dims):
    topology, num_flits = mesh(*dims), 1 << 26
    for model in (LinkModel(), LinkModel(dependency="submessage")):
        schedule = build_tto(topology, cost_model=model.cost_model(topology, num_flits))
        cycles = analytic(schedule, num_flits, model).cycles
        assert 2 / 3 < cycles / num_flits < 0.69


def test_rooted_collectives_have_all_trees_at_the_root():
    assert [schedule.num_flows for schedule in rooted(mesh(3, 4), "tto", 5)] == [3, 3]
    with pytest.raises(ScheduleError, match=r"tto must have one root, not \[1, 2\]"):
        build_tto(mesh(3, 4), roots=[1, 2])
    with pytest.raises(ScheduleError, match="not the trees of tto"):
        build(mesh(3, 4), "tto", "reduce_scatter")


def test_slow_links_hold_chunks_for_more_slots():
    topology = mesh(3, 3)
    speeds = np.where(topology.links.min(axis=1) == 0, 8.0, 16.0)
    slow = replace(topology, bandwidth_gbytes_per_s=speeds)
    packing = three_trees(slow)
    assert packing.period == 4 and verify(build_tto(slow)).contention_free
