"""Sums of sparse tensors: every rank adds all entries in the order of ranks."""

from collections.abc import Sequence
from time import perf_counter

import torch

from multitree.host.distributed.collective import Collective
from multitree.host.distributed.execution import Flows
from multitree.host.distributed.group import Group
from multitree.host.peers.handles import Handle
from multitree.host.peers.jobs import Job
from multitree.host.peers.progress import Steps

__all__ = ["start_sparse_sum"]


def start_sparse_sum(
    group: Group, tensors: Sequence[torch.Tensor], op: str, timeout_s: float
) -> Handle:
    """Start a sum of sparse COO tensors, in place.

    Parameters
    ----------
    group : Group
    tensors : list of one sparse tensor
    op : str
        "sum": no other operator keeps what is absent absent.
    timeout_s : float

    Returns
    -------
    Handle

    Raises
    ------
    ValueError
        If the operator is another one, or there are several tensors.

    Notes
    -----
    The hardware has no sparse sums, and no schedule is executed. Bytes: all entries of all ranks
    to every rank.
    """
    if op != "sum":
        raise ValueError(f"Operator must be sum for sparse tensors, not {op}")
    if len(tensors) != 1:
        raise ValueError(f"Sparse tensors must be summed one at a time, not {len(tensors)}")
    (tensor,) = tensors
    handle = Handle([tensor])
    mine = tensor.detach().coalesce()
    collective = Collective("all_reduce", "sum", -1, tensor.numel(), tensor.dtype, None, Flows)

    def steps(sequence: int) -> Steps[None]:
        begun = perf_counter()
        whole = yield from _sum(group, sequence, collective, mine)
        tensor.detach().copy_(whole)
        group.report(sequence, collective, "torch", "sparse", None, perf_counter() - begun)

    group.member.submit(Job(collective.fingerprint, collective.text, steps, handle, timeout_s))
    return handle


def _sum(
    group: Group, sequence: int, collective: Collective, mine: torch.Tensor
) -> Steps[torch.Tensor]:
    """Numbers of entries first, then the entries."""
    ranks = range(group.num_ranks)
    indices, values = mine.indices().contiguous(), mine.values().contiguous()
    counts = {rank: torch.zeros(1, dtype=torch.int64) for rank in ranks}
    count = torch.tensor([values.shape[0]])
    yield from group.messages(sequence, collective, dict.fromkeys(ranks, count), counts)
    places = {rank: indices.new_empty((indices.shape[0], int(counts[rank]))) for rank in ranks}
    entries = {rank: values.new_empty((int(counts[rank]), *values.shape[1:])) for rank in ranks}
    yield from group.messages(sequence, collective, dict.fromkeys(ranks, indices), places)
    yield from group.messages(sequence, collective, dict.fromkeys(ranks, values), entries)
    return torch.sparse_coo_tensor(
        torch.cat([places[rank] for rank in ranks], dim=1),
        torch.cat([entries[rank] for rank in ranks]),
        mine.shape,
    ).coalesce()
