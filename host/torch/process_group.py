"""The methods that PyTorch calls, for tensors of any shape, in PyTorch's names."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch

from multitree.host.tensors.invariant import needs_limbs
from multitree.host.torch.assembly import Lanes
from multitree.host.torch.collective import CollectiveReport
from multitree.host.torch.composed import InvariantSums, start_sparse_sum
from multitree.host.torch.group import Group
from multitree.host.torch.peers.failures import CollectiveError, FailureRecord
from multitree.host.torch.peers.handles import Handle, all_of
from multitree.host.torch.peers.member import Member
from multitree.host.torch.profiles import profiled
from multitree.host.torch.staging import (
    Lists,
    Staged,
    Tensors,
    check_contiguous,
    check_parts,
    check_total,
    cut_rows,
    is_called_by_cpp,
    listed,
    lists,
    operator_of,
    root_of,
    timeout_of,
)

__all__ = ["Collectives"]


class Collectives:
    """Collectives of a process group, to be mixed in before `ProcessGroup` of a release.

    Every method takes either an options object or the arguments that it stands for, as PyTorch's
    own groups do, and returns a handle at once. Collectives of a group run in the order in which
    they were started; messages run as they can.
    """

    _lanes: Lanes
    _is_invariant: bool

    @property
    def group(self) -> Group:
        """The group of what the program starts."""
        return self._lanes.outer

    @property
    def _timeout_s(self) -> float:
        return self.group.member.timeout_s

    @property
    def _lane(self) -> Group:
        """The group in whose order a collective runs."""
        return self._lanes.current()

    @property
    def _devices(self) -> tuple[str, ...]:
        """Where tensors are reduced: invariant sums are made on the CPU."""
        return ("cpu",) if self._is_invariant else self.group.devices

    def _reducer(self, op: str, tensor: torch.Tensor) -> Group | InvariantSums:
        """What reduces: the group, or integer collectives where bits would depend on order."""
        if self._is_invariant and needs_limbs(op, tensor.dtype):
            return InvariantSums(self._lane)
        return self._lane

    def allreduce(self, tensors: Tensors, *more: Any, **named: Any) -> Handle:
        """Reduce elements of all ranks, in place."""
        handle = self._reduce_all(tensors, *more, **named)
        handle.is_read_by_cpp = is_called_by_cpp("allreduce")
        return handle

    @profiled("all_reduce")
    def _reduce_all(self, tensors: Tensors, *more: Any, **named: Any) -> Handle:
        """Reduce elements of all ranks, in place."""
        arguments = (*more, *named.values())
        op = operator_of(*arguments)
        parts = listed(tensors)
        if parts[0].layout == torch.sparse_coo:
            return start_sparse_sum(self._lane, parts, op, timeout_of(self._timeout_s, *arguments))

        def begin(part: torch.Tensor, staged: Staged, handle: Handle, timeout_s: float) -> None:
            flat = staged.write(part)
            self._reducer(op, flat).reduce_all(flat, op, handle, timeout_s)

        return self._joined(parts, parts, begin, arguments)

    allreduce_coalesced = allreduce

    @profiled("reduce")
    def reduce(self, tensors: Tensors, *more: Any, **named: Any) -> Handle:
        """Reduce elements of all ranks to the root; the other ranks' tensors do not change."""
        arguments = (*more, *named.values())
        op, root = operator_of(*arguments), root_of(*arguments)

        def begin(part: torch.Tensor, staged: Staged, handle: Handle, timeout_s: float) -> None:
            flat = staged.write(part)
            self._reducer(op, flat).reduce(flat, root, op, handle, timeout_s)

        return self._joined(listed(tensors), listed(tensors), begin, arguments)

    @profiled("broadcast")
    def broadcast(self, tensors: Tensors, *more: Any, **named: Any) -> Handle:
        """Copy the root's elements to all ranks, in place."""
        arguments = (*more, *named.values())
        root = root_of(*arguments)

        def begin(part: torch.Tensor, staged: Staged, handle: Handle, timeout_s: float) -> None:
            self._lane.broadcast(staged.write(part), root, handle, timeout_s)

        return self._joined(listed(tensors), listed(tensors), begin, arguments)

    @profiled("reduce_scatter", 1)
    def reduce_scatter(
        self, outputs: Tensors, inputs: Tensors | Lists, *more: Any, **named: Any
    ) -> Handle:
        """Reduce all ranks' lists of parts; each rank gets its own part."""
        return self._scatter_reduced(outputs, inputs, (*more, *named.values()))

    def _scatter_reduced(
        self, outputs: Tensors, inputs: Tensors | Lists, arguments: tuple[Any, ...]
    ) -> Handle:
        op = operator_of(*arguments)
        pairs = list(zip(listed(outputs), lists(inputs), strict=True))

        def begin(pair: Any, staged: Staged, handle: Handle, timeout_s: float) -> None:
            output, parts = pair
            check_parts("Input", parts, self.group.num_ranks, output.dtype)
            flat = [staged.read(part) for part in parts]
            to = staged.write(output)
            self._reducer(op, to).scatter_reduced(to, flat, op, handle, timeout_s)

        return self._joined(pairs, listed(outputs), begin, arguments)

    @profiled("_reduce_scatter_base", 1)
    def reduce_scatter_single(
        self, output: torch.Tensor, tensor: torch.Tensor, *more: Any, **named: Any
    ) -> Handle:
        """The same with the parts in one tensor, one behind the other."""
        check_total(tensor, output, self.group.num_ranks)
        parts = list(tensor.reshape(-1).chunk(self.group.num_ranks)) if tensor.numel() else []
        parts = parts or [tensor.reshape(-1)] * self.group.num_ranks
        return self._scatter_reduced([output], [parts], (*more, *named.values()))

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, *more: Any, **named: Any
    ) -> Handle:
        """Several of these."""
        pairs = zip(listed(outputs), listed(inputs), strict=True)
        handles = [self.reduce_scatter_single(*pair, *more, **named) for pair in pairs]
        return all_of(handles, listed(outputs))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    @profiled("all_gather", 1)
    def allgather(
        self, outputs: Tensors | Lists, inputs: Tensors, *more: Any, **named: Any
    ) -> Handle:
        """Copy every rank's tensor to a list on all ranks."""
        pairs = list(zip(lists(outputs), listed(inputs), strict=True))

        def begin(pair: Any, staged: Staged, handle: Handle, timeout_s: float) -> None:
            parts, tensor = pair
            check_parts("Output", parts, self.group.num_ranks, tensor.dtype)
            if parts[self.group.rank].numel() != tensor.numel():
                raise ValueError(
                    f"Output of rank {self.group.rank} must have the {tensor.numel()} elements "
                    f"of its input, not {parts[self.group.rank].numel()}"
                )
            flat = [staged.write(part) for part in parts]
            self._lane.all_gather(flat, staged.read(tensor), handle, timeout_s)

        result = [part for parts, _ in pairs for part in parts]
        return self._joined(pairs, result, begin, (*more, *named.values()))

    @profiled("_all_gather_base", 1)
    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, *more: Any, **named: Any
    ) -> Handle:
        """The same into one tensor, one part behind the other."""
        check_total(output, tensor, self.group.num_ranks)
        staged = Staged(self.group.devices)
        flat = staged.write(output)
        parts = list(flat.chunk(self.group.num_ranks)) if flat.numel() else []
        parts = parts or [flat] * self.group.num_ranks
        handle = Handle([output], after=staged.give_back)
        timeout_s = timeout_of(self._timeout_s, *more, *named.values())
        self._lane.all_gather(parts, staged.read(tensor), handle, timeout_s)
        return handle

    _allgather_base = all_gather_single

    def allgather_coalesced(
        self, output_lists: Lists, inputs: Tensors, *more: Any, **named: Any
    ) -> Handle:
        """Several all-gathers: list r has every tensor of rank r."""
        outputs = [list(parts) for parts in zip(*output_lists, strict=True)]
        return self.allgather(outputs, inputs, *more, **named)

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, *more: Any, **named: Any
    ) -> Handle:
        """Several all-gathers into one tensor each."""
        pairs = zip(listed(outputs), listed(inputs), strict=True)
        handles = [self.all_gather_single(*pair, *more, **named) for pair in pairs]
        return all_of(handles, listed(outputs))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @profiled("gather", 1)
    def gather(self, outputs: Tensors | Lists, inputs: Tensors, *more: Any, **named: Any) -> Handle:
        """Copy every rank's tensor to a list on the root."""
        arguments = (*more, *named.values())
        root, (tensor,) = root_of(*arguments), listed(inputs)
        parts = lists(outputs)[0] if self.group.rank == root else []
        return self._exchange("gather", {root: tensor}, dict(enumerate(parts)), arguments, root)

    @profiled("scatter", 1)
    def scatter(
        self, outputs: Tensors, inputs: Tensors | Lists, *more: Any, **named: Any
    ) -> Handle:
        """Copy the root's list of tensors to the ranks, one to each."""
        arguments = (*more, *named.values())
        root, (tensor,) = root_of(*arguments), listed(outputs)
        parts = lists(inputs)[0] if self.group.rank == root else []
        return self._exchange("scatter", dict(enumerate(parts)), {root: tensor}, arguments, root)

    @profiled("all_to_all", 1)
    def alltoall(self, outputs: Tensors, inputs: Tensors, *more: Any, **named: Any) -> Handle:
        """Copy the i-th input of rank j to the j-th output of rank i."""
        check_contiguous("Input", listed(inputs))
        check_contiguous("Output", listed(outputs))
        sends, receives = dict(enumerate(listed(inputs))), dict(enumerate(listed(outputs)))
        return self._exchange("all_to_all", sends, receives, (*more, *named.values()))

    @profiled("all_to_all", 1)
    def all_to_all_single(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_splits: Sequence[int] | None,
        input_splits: Sequence[int] | None,
        *more: Any,
        **named: Any,
    ) -> Handle:
        """The same with tensors cut along their first axis, evenly where no sizes are given."""
        check_contiguous("Input", [tensor])
        check_contiguous("Output", [output])
        staged = Staged()
        num_ranks = self.group.num_ranks
        sends = cut_rows("Input", staged.read(tensor), tensor, input_splits, num_ranks)
        receives = cut_rows("Output", staged.write(output), output, output_splits, num_ranks)
        handle = Handle([output], after=staged.give_back)
        timeout_s = timeout_of(self._timeout_s, *more, *named.values())
        pairs = dict(enumerate(sends)), dict(enumerate(receives))
        self._lane.exchange("all_to_all", *pairs, handle, timeout_s)
        return handle

    alltoall_base = all_to_all_single

    @profiled("barrier", None)
    def barrier(self, *more: Any, **named: Any) -> Handle:
        """Wait until all ranks have come."""
        handle = Handle([])
        self._lane.barrier(handle, timeout_of(self._timeout_s, *more, *named.values()))
        return handle

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Wait until all ranks have come; the error names the first one that has not."""
        # `wait_all_ranks` has no effect: the diagnosis follows who waits for whom.
        given = getattr(timeout, "timeout", timeout)  # since 2.15 in options
        if given is not None and given.total_seconds() == 0:
            raise RuntimeError(
                f"Rank {self.group.rank} timed out in monitoredBarrier: timeout must be above 0 s"
            )
        try:
            self.barrier(timeout=given).wait()
        except CollectiveError as error:
            rank = error.record.rank
            raise RuntimeError(f"Rank {rank} failed to pass monitoredBarrier: {error}") from error

    @profiled("send")
    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> Handle:
        """Start to send a tensor to a rank."""
        (tensor,) = listed(tensors)
        flat = Staged().read(tensor)
        handle = Handle([tensor])
        self.group.send(peer, tag, flat, handle, self._timeout_s)
        return handle

    @profiled("recv")
    def recv(self, tensors: Tensors, peer: int, tag: int = 0) -> Handle:
        """Start to receive a tensor from a rank."""
        return self._receive(tensors, peer, tag)

    @profiled("recvAnySource")
    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Handle:
        """Start to receive a tensor from whoever sends one with this tag."""
        return self._receive(tensors, None, tag)

    def _receive(self, tensors: Tensors, peer: int | None, tag: int) -> Handle:
        (tensor,) = listed(tensors)
        staged = Staged()
        handle = Handle([tensor], after=staged.give_back)
        self.group.receive(peer, tag, staged.write(tensor), handle, self._timeout_s)
        return handle

    def _exchange(
        self,
        name: str,
        sends: dict[int, torch.Tensor],
        receives: dict[int, torch.Tensor],
        arguments: tuple[Any, ...],
        root: int = -1,
    ) -> Handle:
        staged = Staged()
        handle = Handle(list(receives.values()), after=staged.give_back)
        self._lane.exchange(
            name,
            {peer: staged.read(tensor) for peer, tensor in sends.items()},
            {peer: staged.write(tensor) for peer, tensor in receives.items()},
            handle,
            timeout_of(self._timeout_s, *arguments),
            root=root,
        )
        return handle

    def _joined(
        self,
        items: Sequence[Any],
        result: Sequence[torch.Tensor],
        begin: Callable[[Any, Staged, Handle, float], None],
        arguments: tuple[Any, ...],
    ) -> Handle:
        """Start one collective for each item, one handle for all."""
        timeout_s = timeout_of(self._timeout_s, *arguments)
        handles = []
        for item in items:
            staged = Staged(self._devices)
            handle = Handle(list(result), after=staged.give_back)
            begin(item, staged, handle, timeout_s)
            handles.append(handle)
        return all_of(handles, result)

    # The group as a whole.

    @property
    def reports(self) -> list[CollectiveReport]:
        """What the last collectives were and took, oldest first."""
        return list(self.group.reports)

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """How many collectives ran, by name and engine."""
        return dict(self.group.counts)

    @property
    def failure(self) -> FailureRecord | None:
        """Why the group has failed; None if it has not."""
        found = [member.failure for member in self.members if member.failure is not None]
        return found[0] if found else None

    @property
    def members(self) -> list[Member]:
        """This rank's ends: of the group and, where callbacks run collectives, of that for them."""
        return [group.member for group in self._lanes.groups]

    def abort(self) -> None:
        """End all that is under way with an error, at all ranks."""
        for member in self.members:
            member.abort()

    def shutdown(self) -> None:
        """Leave the group."""
        self._lanes.close()

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long collectives that begin later may take."""
        for member in self.members:
            member.timeout_s = timeout.total_seconds()

    _set_default_timeout = set_timeout
