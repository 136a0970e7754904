"""Figures of training are iterations of jobs, over those of the ring."""

import math

import pytest

from multitree import LinkModel, SystolicArrays, load_job, time_job, torus
from multitree.host.figures.make import make_figure


@pytest.mark.parametrize(
    ("name", "overlap"),
    [("training", "none"), pytest.param("training-overlap", "layers", marks=pytest.mark.slow)],
)
def test_values_are_those_of_jobs(tmp_path, name, overlap):
    made = make_figure(name, tmp_path, networks=["torus:3x3"])
    found = {(each.panel.split(": ")[1][:9], each.series, each.x): each for each in made.values}
    job, network = load_job("ncf", arrays=SystolicArrays(folds="overlapped")), torus(3, 3)
    packets = LinkModel(flow_control="packet")
    ring = time_job(job, network, "ring", overlap=overlap, link_model=packets)
    tree = time_job(job, network, "multitree", overlap=overlap)
    iteration = found["iteration", "MultiTree, messages", "ncf"]
    assert iteration.y == tree.total_cycles / ring.total_cycles
    assert iteration.part == tree.compute_cycles / ring.total_cycles
    all_reduce = found["all-reduc", "MultiTree, messages", "ncf"]
    assert all_reduce.y == ring.communication_cycles / tree.communication_cycles
    assert all_reduce.cycles == tree.communication_cycles
    series = [each for key, each in found.items() if key[:2] == ("iteration", "2D ring")]
    *each, mean = [value.y for value in series]
    assert len(each) == 7 and mean == pytest.approx(math.prod(each) ** (1 / 7))
