"""Gradients are sent whole, layer by layer, or in the buckets that PyTorch makes."""

import numpy as np
import pytest

from multitree import Collective, Job, JobError, Layer, Stage, load_job
from multitree.sim.jobs.iteration import BUCKET_BYTES, gradient_messages


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
