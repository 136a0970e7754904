"""Groups of ranks, their gradients, and the measurements of training."""

import math

import numpy as np
import pytest

from multitree import LinkModel, ScheduleError, build, load_job, parse_topology, torus
from multitree.sim.jobs.groups import Placement, rank_groups
from multitree.sim.jobs.iteration import BUCKET_BYTES, gradient_messages, iteration
from multitree.sim.jobs.job import Collective, Job, JobError, Layer, Stage
from multitree.sim.jobs.systolic_arrays import LayerShape
from tests.benches import bench_module
from tests.refusals import refuses
from tests.topology.graphs import copy_of


def test_every_rank_is_in_one_group_of_each_kind_and_two_groups_share_one_rank():
    for num_ranks, size in [(8, 2), (12, 3), (6, 6), (5, 1)]:
        found = rank_groups(num_ranks, size)
        for groups in found.values():
            assert sorted(rank for group in groups for rank in group) == list(range(num_ranks))
        pairs = [set(a) & set(b) for a in found["tensor"] for b in found["data"]]
        assert all(len(both) == 1 for both in pairs)
        assert all(list(group) == sorted(group) for group in found["tensor"])
        assert {np.ptp(group) for group in found["tensor"]} == {size - 1}


def test_ranks_that_are_no_multiple_of_a_group_are_refused():
    refuses(JobError, "must be a multiple of the 3 of a tensor-parallel group", rank_groups, 8, 3)


def schedules(network):
    return build(network.topology, "multitree")


def test_rows_and_columns_of_a_torus_are_rings_on_links_of_their_own():
    placement = Placement(torus(4, 4), 4)
    rows, columns = (placement.networks(kind) for kind in ("tensor", "data"))
    for networks in (rows, columns):
        (network,) = networks
        assert network.groups == (0, 1, 2, 3)
        assert (network.topology.num_ranks, network.topology.num_links) == (4, 8)
    used = {kind: placement.used_links(kind, schedules) for kind in ("tensor", "data")}
    tensor, data = (np.concatenate(list(each.values())) for each in used.values())
    assert len(np.unique(np.r_[tensor, data])) == len(tensor) + len(data) == torus(4, 4).num_links
    ends = torus(4, 4).links[used["tensor"][2]]
    assert set(ends.ravel().tolist()) == set(range(8, 12))


@pytest.mark.parametrize("spec", ["torus:4x4", "dgx_a100:2x2"])
def test_one_group_of_all_ranks_has_the_whole_network(spec):
    whole = parse_topology(spec)
    (network,) = Placement(whole).networks("data")
    assert network.topology is whole and network.links[0].tolist() == list(range(whole.num_links))
    assert Placement(whole).networks("tensor") == ()


def test_boxes_of_gpus_and_their_rails_are_networks_of_their_own():
    placement = Placement(parse_topology("dgx_a100:4"), 8)
    (box,), rails = placement.networks("tensor"), placement.networks("data")
    assert box.groups == (0, 1, 2, 3) and box.topology.num_switches == 6
    assert sorted(group for each in rails for group in each.groups) == list(range(8))
    assert {each.topology.num_switches for each in rails} == {1}
    both = [placement.used_links(kind, schedules) for kind in ("tensor", "data")]
    links = np.concatenate([each for used in both for each in used.values()])
    assert len(links) == len(np.unique(links))


def test_groups_that_are_not_connected_without_others_are_refused():
    with pytest.raises(
        JobError, match=r"torus:4x4: data-parallel groups of 8 .* group 0 \(ranks 0, 2, 4, \.\.\.\)"
    ):
        Placement(torus(4, 4), 2).networks("data")
    assert len(Placement(torus(4, 4), 2).networks("tensor")) == 1
    sizes = "tensor-parallel groups of 2 or 8 ranks fill whole dimensions"
    refuses(JobError, sizes, Placement(torus(3, 4, 2), 4).networks, "data")
    for size in (2, 8):
        placement = Placement(torus(3, 4, 2), size)
        assert all(placement.networks(kind) for kind in ("tensor", "data"))


def test_groups_that_share_a_link_are_refused_by_its_name():
    placement = Placement(parse_topology("fat_tree:4x2"), 2)
    assert placement.used_links("tensor", schedules)
    with pytest.raises(ScheduleError, match=r"groups 0 and 1 share link \d+ \(\d+ -> \d+\)"):
        placement.used_links("data", schedules)


def test_groups_on_unequal_links_have_networks_of_their_own():
    whole = torus(4, 4)
    speeds = np.where(whole.links.max(axis=1) < 4, 8.0, 16.0)
    slow = copy_of(whole, speeds)
    assert [each.groups for each in Placement(slow, 4).networks("tensor")] == [(0,), (1, 2, 3)]


def job_of(*counts):
    return Job("any", tuple(Layer(str(i), num_parameters=n) for i, n in enumerate(counts)))


def test_without_overlap_all_gradients_are_one_message_behind_the_first_layer():
    (message,) = gradient_messages(job_of(5, 0, 7), "none")
    assert (message.layer, message.num_parameters) == (0, 12)


def test_with_layers_each_layer_with_parameters_sends_its_own_last_first():
    found = gradient_messages(job_of(5, 0, 7), "layers")
    assert [(each.layer, each.num_parameters) for each in found] == [(2, 7), (0, 5)]


def test_a_bucket_ends_with_the_layer_that_fills_it():
    found = gradient_messages(job_of(3, 1, 9, 2, 4), "buckets", (20, 40))
    assert [(each.layer, each.num_parameters) for each in found] == [(3, 6), (1, 10), (0, 3)]
    whole = gradient_messages(job_of(0, 0, 5), "buckets", (1000, 1000))
    assert [(each.layer, each.num_parameters) for each in whole] == [(0, 5)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "transformer"])
def test_buckets_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
    import torch.distributed as dist

    job = load_job(name)
    parameters = [torch.empty(layer.num_parameters, device="meta") for layer in job.layers]
    theirs, _ = dist._compute_bucket_assignment_by_size(parameters[::-1], list(BUCKET_BYTES))
    ours = gradient_messages(job, "buckets")
    sizes = [sum(parameters[::-1][i].numel() for i in bucket) for bucket in theirs]
    assert [each.num_parameters for each in ours] == sizes


def test_buckets_have_the_sizes_of_pytorch_s_unless_said():
    assert BUCKET_BYTES == (2**20, 25 * 2**20)
    job = load_job("resnet50")
    assert gradient_messages(job, "buckets") == gradient_messages(job, "buckets", BUCKET_BYTES)


def test_no_gradient_is_lost_whatever_the_buckets():
    rng = np.random.default_rng(3)
    for _ in range(50):
        counts = rng.integers(0, 30, rng.integers(1, 12)).tolist()
        counts[-1] += 1
        for overlap in ("none", "layers", "buckets"):
            found = gradient_messages(job_of(*counts), overlap, (rng.integers(1, 99), 64))
            assert sum(each.num_parameters for each in found) == sum(counts)
            assert [each.layer for each in found] == sorted({each.layer for each in found})[::-1]


def test_what_does_not_fit_is_refused():
    given = Job("given", (Layer("a", forward=Stage(1.0, Collective("all_reduce", 4))),))
    assert gradient_messages(given, "layers") == ()
    with pytest.raises(JobError, match="Overlap must be none, layers or buckets, not 'all'"):
        gradient_messages(given, "all")
    with pytest.raises(JobError, match=r"given: overlap must be none or layers .*, not 'buckets'"):
        gradient_messages(given, "buckets")
    with pytest.raises(JobError, match="Buckets must have at least 1 byte, not 0"):
        gradient_messages(job_of(1), "buckets", (0, 4))
    untimed = Job(given.name, given.layers, has_compute=False)
    with pytest.raises(JobError, match="overlap must be none where compute times are unknown"):
        gradient_messages(untimed, "layers")


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
