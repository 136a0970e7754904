"""The hook that lets DistributedDataParallel use a group of this backend."""

from typing import Any

import torch
import torch.distributed as dist

from multitree.host.distributed.creation import group_of

__all__ = ["ddp_hook"]


def ddp_hook(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of gradients over a group of this backend.

    For models whose default group is of another backend::

        group = torch.distributed.new_group(backend="multitree")
        model.register_comm_hook(group, multitree.torch.ddp_hook)

    Parameters
    ----------
    group : ProcessGroup or None
        One of this backend; None for the default group.
    bucket : torch.distributed.GradBucket

    Returns
    -------
    torch.futures.Future
        Of the averaged bucket.

    Raises
    ------
    TypeError
        If the group is of another backend.

    Notes
    -----
    Gradients are multiplied by 1 / num_ranks and then summed, as without a hook, so that the bits
    are those of a default group of this backend.
    """
    chosen = group_of(group)
    buffer = bucket.buffer()
    buffer.mul_(1.0 / chosen.group.num_ranks)
    future = chosen.allreduce([buffer]).get_future()
    return future.then(lambda done: done.value()[0])
