"""Reductions that are made of several collectives or messages: invariant, sparse."""

from collections.abc import Callable, Sequence
from time import perf_counter

import torch

from multitree.host.tensors.invariant import check_invariant, keys_of, limbs_of, sum_of
from multitree.host.tensors.operators import check_operator
from multitree.host.torch.collective import Collective, Flows
from multitree.host.torch.group import Group, slices_of
from multitree.host.torch.peers.handles import Handle
from multitree.host.torch.peers.progress import Steps

__all__ = ["InvariantSums", "start_sparse_sum"]


class InvariantSums:
    """Sums and averages of floats as integer collectives: a maximum, then a sum of two limbs.

    An all-reduce sends 3 times the bytes of float32, a reduce and a reduce-scatter 4 times: an
    all-reduce of one int32 per element, and the collective itself of two. `tensors.invariant`
    defines the bits.
    """

    def __init__(self, group: Group) -> None:
        self._group = group

    def reduce_all(self, tensor: torch.Tensor, op: str, handle: Handle, timeout_s: float) -> None:
        """Sum elements of all ranks, in place."""
        self._sum_buffer("all_reduce", -1, tensor, op, handle, timeout_s)

    def reduce(
        self, tensor: torch.Tensor, root: int, op: str, handle: Handle, timeout_s: float
    ) -> None:
        """Sum elements of all ranks at the root."""
        self._sum_buffer("reduce", root, tensor, op, handle, timeout_s)

    def _sum_buffer(
        self,
        name: str,
        root: int,
        tensor: torch.Tensor,
        op: str,
        handle: Handle,
        timeout_s: float,
    ) -> None:
        """Start both collectives of a sum on a whole buffer."""
        keys = self._find_largest(tensor, op, timeout_s)
        limbs = torch.empty(2 * len(_real(tensor)), dtype=torch.int32)

        def begin() -> torch.Tensor:
            return limbs.copy_(limbs_of(tensor, keys).view(-1))

        def after() -> None:
            if root in (-1, self._group.rank):
                tensor.copy_(self._sum(limbs, keys, tensor.dtype, op))

        self._start_buffer(name, "sum", limbs, begin, after, handle, timeout_s, root)

    def scatter_reduced(
        self,
        output: torch.Tensor,
        inputs: Sequence[torch.Tensor],
        op: str,
        handle: Handle,
        timeout_s: float,
    ) -> None:
        """Sum every rank's part; each rank gets its own."""
        whole = torch.cat(list(inputs))
        keys = self._find_largest(whole, op, timeout_s)
        sizes = [len(_real(part)) for part in inputs]
        own = torch.empty(2 * sizes[self._group.rank], dtype=torch.int32)
        layout = self._group.part_layout("reduce_scatter", [keys.new_empty(2 * n) for n in sizes])

        def flows() -> Flows:
            largest = keys.split(sizes)
            limbs = [
                limbs_of(part, of_part).reshape(-1)
                for part, of_part in zip(inputs, largest, strict=True)
            ]
            return self._group.part_flows(layout, own, limbs)

        def after() -> None:
            largest = keys.split(sizes)[self._group.rank]
            output.copy_(self._sum(own, largest, output.dtype, op))

        total = 2 * sum(sizes)
        collective = Collective(
            "reduce_scatter", "sum", -1, total, torch.int32, layout, flows, after
        )
        self._group.start(collective, handle, timeout_s)

    def _find_largest(self, tensor: torch.Tensor, op: str, timeout_s: float) -> torch.Tensor:
        """Start the maximum of all ranks' magnitudes; what it is written to."""
        check_operator(op, tensor.dtype)
        check_invariant(op, tensor.dtype, self._group.num_ranks)
        keys = torch.empty(len(_real(tensor)), dtype=torch.int32)

        def begin() -> torch.Tensor:
            return keys.copy_(keys_of(tensor))

        # If it fails, so does the group, and the sum behind it.
        self._start_buffer("all_reduce", "max", keys, begin, lambda: None, Handle([]), timeout_s)
        return keys

    def _start_buffer(
        self,
        name: str,
        op: str,
        buffer: torch.Tensor,
        begin: Callable[[], torch.Tensor],
        after: Callable[[], None],
        handle: Handle,
        timeout_s: float,
        root: int = -1,
    ) -> None:
        """Start a collective on integers that are made when it begins."""
        layout = self._group.buffer_layout(name, None if root < 0 else root, buffer)

        def flows() -> Flows:
            begin()
            slices = slices_of(layout, buffer)
            keeps = root in (-1, self._group.rank)
            return Flows(slices, slices if keeps else {})

        collective = Collective(name, op, root, len(buffer), buffer.dtype, layout, flows, after)
        self._group.start(collective, handle, timeout_s)

    def _sum(
        self, limbs: torch.Tensor, keys: torch.Tensor, dtype: torch.dtype, op: str
    ) -> torch.Tensor:
        num_ranks = self._group.num_ranks if op == "average" else None
        return sum_of(limbs.view(2, -1), keys, dtype, num_ranks).view(-1)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """Real numbers of a tensor of one dimension."""
    return torch.view_as_real(tensor).view(-1) if tensor.is_complex() else tensor


def start_sparse_sum(
    group: Group, tensors: Sequence[torch.Tensor], op: str, timeout_s: float
) -> Handle:
    """Start a sum of one sparse COO tensor in place: all entries of all ranks go to every rank.

    ValueError for another operator, which does not keep what is absent absent, or several tensors.
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
        # Its entries become the tensor's own, which autograd must be able to use.
        with torch.inference_mode(mode=False), torch.no_grad():
            tensor.copy_(whole.clone())
        group.report(sequence, collective, "torch", "sparse", None, perf_counter() - begun)

    group.queue(collective, steps, handle, timeout_s)
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
        check_invariants=False,
    ).coalesce()
