"""Measurements of training: means of runs, and what SCALE-Sim is given."""

import math

from multitree import LinkModel, load_job, torus
from multitree.sim.jobs.groups import Placement
from multitree.sim.jobs.iteration import iteration
from multitree.sim.jobs.systolic_arrays import LayerShape
from tests.benches import bench_module

training, scale_sim = bench_module("training"), bench_module("scale_sim")


def rows():
    """Runs in which scheme s takes s cycles of communication and 10 of compute."""
    for at, scheme in enumerate(training.SCHEMES, start=1):
        for network in training.EVALUATED:
            for overlap in training.OVERLAPS:
                cycles = {"communication_cycles": at, "total_cycles": 10 + at}
                yield {"network": network, "overlap": overlap, "scheme": scheme} | cycles


def test_means_are_those_of_the_baseline_s_cycles_over_the_scheme_s():
    found = {
        (each["networks"], each["overlap"], each["over"], each["scheme"]): each
        for each in training.means([*rows()])
    }
    each = found["convolutional", "layers", "ring_2d", "multitree"]
    assert math.isclose(each["communication_speedup"], 2 / 5)
    assert math.isclose(each["total_speedup"], 12 / 15)
    assert math.isclose(each["time_saved"], 1 - 15 / 12)
    assert training.geometric_mean([2, 8]) == 4


def test_the_published_ratio_makes_the_same_iteration_with_faster_collectives(monkeypatch):
    monkeypatch.setattr(training, "KINDS", {"all": ("ncf",)})
    placement, job = Placement(torus(4, 4)), load_job("ncf")
    found = training.with_published_ratio(placement, [job])
    ring, overlapped, *_ = found
    model = LinkModel(flow_control="packet")
    usual = iteration(job, training.CollectiveTimes(placement, "ring", model))
    communication = usual.communication_cycles
    expected = usual.total_cycles / (usual.compute_cycles + communication / 2.3)
    assert math.isclose(ring["total_speedup"], expected, rel_tol=1e-6)
    assert overlapped["overlap"] == "layers" and 1 < overlapped["total_speedup"] < 2.3


def test_scale_sim_is_given_every_product_of_a_layer_once(monkeypatch):
    layer = LayerShape("one", 5, 5, 3, 3, 2, 4, 1)
    monkeypatch.setattr(scale_sim, "model_layers", lambda name: (layer, layer))
    assert scale_sim.products_of("any") == {
        (9, 4, 18): "any one, forward",
        (25, 2, 36): "any one, input gradient",
        (18, 4, 9): "any one, weight gradient",
    }
