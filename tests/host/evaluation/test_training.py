"""Figures of training are iterations of jobs, over those of the ring."""

import math

import pytest

from multitree import LinkModel, SystolicArrays, build, load_job, time_job, torus
from multitree.host.evaluation.make import make_figure
from multitree.host.evaluation.schemes import reduction_cycles
from multitree.sim.analytic.engine import analytic

JOB, NETWORK = load_job("ncf", arrays=SystolicArrays(folds="overlapped")), torus(3, 3)


def made_of(name, folder, **rule):
    """Values of a figure by panel, series and job."""
    made = make_figure(name, folder, networks=["torus:3x3"], **rule)
    return {(each.panel.split(": ")[1][:9], each.series, each.x): each for each in made.values}


@pytest.mark.parametrize(
    ("name", "overlap"),
    [("training", "none"), pytest.param("training-overlap", "layers", marks=pytest.mark.slow)],
)
def test_values_are_those_of_jobs(tmp_path, name, overlap):
    found = made_of(name, tmp_path)
    packets = LinkModel(flow_control="packet")
    ring = time_job(JOB, NETWORK, "ring", overlap=overlap, link_model=packets)
    tree = time_job(JOB, NETWORK, "multitree", overlap=overlap)
    iteration = found["iteration", "MultiTree, messages", "ncf"]
    assert iteration.y == tree.total_cycles / ring.total_cycles
    assert iteration.part == tree.compute_cycles / ring.total_cycles
    all_reduce = found["all-reduc", "MultiTree, messages", "ncf"]
    assert all_reduce.y == ring.communication_cycles / tree.communication_cycles
    assert all_reduce.cycles == tree.communication_cycles
    series = [each for key, each in found.items() if key[:2] == ("iteration", "2D ring")]
    *each, mean = [value.y for value in series]
    assert len(each) == 7 and mean == pytest.approx(math.prod(each) ** (1 / 7))


def test_by_the_published_rule_an_iteration_has_the_cycles_of_lockstep_without_additions(tmp_path):
    found = made_of("training", tmp_path, rule="published")
    # In one all-reduce behind the backward pass.
    usual = time_job(JOB, NETWORK, "multitree")
    size_bytes = sum(each.num_parameters for each in JOB.layers) * JOB.bytes_per_parameter
    num_flits = LinkModel().num_flits(size_bytes, 1)
    schedule = build(NETWORK, "multitree")
    cycles = analytic(schedule, num_flits, lockstep=True).cycles
    cycles -= reduction_cycles(schedule, LinkModel())
    value = found["all-reduc", "MultiTree, messages", "ncf"]
    assert value.lockstep is True and value.cycles == cycles
    assert value.cycles != usual.communication_cycles
    assert found["all-reduc", "ring", "ncf"].lockstep is False
