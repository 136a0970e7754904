"""Which layers' gradients are sent together, and when they are ready."""

from collections.abc import Iterator
from dataclasses import dataclass

from multitree.sim.jobs.job import Job, JobError

__all__ = ["BUCKET_BYTES", "OVERLAPS", "GradientMessage", "gradient_messages"]

OVERLAPS = ("none", "layers", "buckets")
BUCKET_BYTES = (1 << 20, 25 << 20)
"""Least bytes of the first bucket and of all others, as in DistributedDataParallel."""


@dataclass(frozen=True)
class GradientMessage:
    """Gradients in one all-reduce; the backward pass of `layer` gives the last of them."""

    layer: int
    num_parameters: int


def gradient_messages(
    job: Job, overlap: str, bucket_bytes: tuple[int, int] = BUCKET_BYTES
) -> tuple[GradientMessage, ...]:
    """Messages of a model's gradients, in the order in which they are ready.

    `overlap` "none" gives one message after all layers, "layers" one for each layer with
    parameters. "buckets" gathers layers, the last first, up to `bucket_bytes` of the first and of
    every other bucket; a bucket ends with the layer that fills it, as in PyTorch's reducer.
    """
    if overlap not in OVERLAPS:
        raise JobError(f"Overlap must be {', '.join(OVERLAPS[:-1])} or buckets, not {overlap!r}")
    if overlap != "none" and not job.has_compute:
        raise JobError(
            f"{job.name}: overlap must be none where compute times are unknown, not {overlap!r}"
        )
    # A file that names collectives has decided already which gradients go together.
    if overlap == "buckets" and not job.num_parameters:
        raise JobError(
            f"{job.name}: overlap must be none or layers where a file names the collectives, not "
            "'buckets'"
        )
    if min(bucket_bytes) < 1:
        raise JobError(f"Buckets must have at least 1 byte, not {min(bucket_bytes)}")
    limits = {"none": None, "layers": (1, 1), "buckets": bucket_bytes}[overlap]
    return tuple(_messages(job, limits))


def _messages(job: Job, limits: tuple[int, int] | None) -> Iterator[GradientMessage]:
    """Messages that end with the layer that fills them; without limits one message of all."""
    limit, gathered = limits[0] if limits else None, 0
    for number in reversed(range(len(job.layers))):
        gathered += job.layers[number].num_parameters
        full = limit is not None and gathered * job.bytes_per_parameter >= limit
        if gathered and (full or number == 0):
            yield GradientMessage(number, gathered)
            limit, gathered = limits[1] if limits else None, 0
