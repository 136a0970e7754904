"""The host's door to all-reduce: collectives on arrays and tensors."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy.typing as npt

from multitree.host.buffers import take_buffers, take_pieces
from multitree.host.invariant_sums import check_level
from multitree.host.plans import CollectiveQueue, Plans
from multitree.host.runner import Runner
from multitree.host.work import Work
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.errors import check_type
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

if TYPE_CHECKING:
    import torch

__all__ = ["Communicator"]

Array = TypeVar("Array", bound="npt.NDArray[Any] | torch.Tensor")


class Communicator(AbstractContextManager["Communicator"]):
    """Runs collectives on a topology's ranks, all of whose buffers the caller holds.

    A schedule is built and verified once per collective and root, with "auto" once per size, too;
    every result's report carries its hash. Collectives run in the order they were started, in a
    thread of their own.

    Parameters
    ----------
    topology : Topology
        What joins the ranks.
    algorithm : str
        "multitree", "ring", "bidirectional_ring" or another one that `build` knows; or "auto",
        which takes for each collective the algorithm, the dependency granularity and the sibling
        order that the analytic engine finds the fastest for its size.
    engine : str
        "numpy", "torch" or "rtl". Nothing is ever put in its place.
    link_model : LinkModel, optional
        Clock, flits, buffers and memory for engines with a clock.
    check : bool
        Compare every rank's memory with `execute` in each run; the report has it as `exact`.
    reproducible : str
        What sums and averages of floats in `all_reduce`, `reduce_scatter` and `reduce` have the
        same bits in spite of. "schedule": the engine; they depend on the schedule and the
        buffer's length. "invariant": topology, algorithm, length and engine; each takes an
        all-reduce of one int32 per element and a collective of two, 3 times the bytes of float32,
        6 times those of bfloat16, and PyTorch on the host. The report's cycles count both, and
        its `stages` are theirs.

    Raises
    ------
    ValueError
        If there is no such algorithm, engine or level of reproducibility.
    ScheduleError
        If the algorithm has no all-reduce on this topology.
    EngineError
        If the engine, or invariance, cannot be had on this machine; names the next one down.

    Examples
    --------
    >>> import numpy as np
    >>> from multitree import Communicator, torus
    >>> with Communicator(torus(2, 2)) as comm:
    ...     comm.all_reduce(np.arange(8, dtype=np.int32).reshape(4, 2)).wait().tolist()
    [[12, 16], [12, 16], [12, 16], [12, 16]]
    """

    def __init__(
        self,
        topology: Topology,
        *,
        algorithm: str = "multitree",
        engine: str = "numpy",
        link_model: LinkModel | None = None,
        check: bool = False,
        reproducible: str = "schedule",
    ) -> None:
        check_type("Topology", topology, Topology)
        if link_model is not None:
            check_type("Link model", link_model, LinkModel)
        check_type("Check", check, bool)
        check_level(reproducible)
        self._algorithm = algorithm
        self._plans = Plans(topology, algorithm, link_model or LinkModel())
        self._runner = Runner(topology, engine, link_model=link_model, check=check)
        self._queue = CollectiveQueue(self._runner, self._plans, reproducible=reproducible)

    @property
    def topology(self) -> Topology:
        """What joins the ranks."""
        return self._runner.topology

    @property
    def algorithm(self) -> str:
        """Name of the algorithm."""
        return self._algorithm

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self._runner.engine.name

    def schedule(
        self,
        collective: str = "all_reduce",
        root: int | None = None,
        *,
        size_bytes: int | None = None,
    ) -> Schedule:
        """Build and verify a collective's schedule, or return the one that was.

        Parameters
        ----------
        collective : str
            "all_reduce", "reduce_scatter", "all_gather", "broadcast" or "reduce".
        root : int, optional
            Of broadcast and reduce.
        size_bytes : int, optional
            Of one rank's buffer; "auto" needs it.

        Returns
        -------
        Schedule

        Raises
        ------
        ScheduleError
            If the algorithm has no such schedule on this topology.
        ValueError
            If the algorithm is "auto" and no size is given.
        """
        return self._plans.plan(collective, root, size_bytes).schedule

    @overload
    def all_reduce(self, buffers: Sequence[Array], op: str = "sum") -> Work[list[Array]]: ...
    @overload
    def all_reduce(self, buffers: Array, op: str = "sum") -> Work[Array]: ...
    def all_reduce(self, buffers: Any, op: str = "sum") -> Work[Any]:
        """Start the sum, the maximum or the average of all ranks' buffers on every rank.

        Parameters
        ----------
        buffers : (num_ranks, ...) array or tensor, or list of num_ranks arrays or tensors
            float32, int32 or bfloat16 (`ml_dtypes.bfloat16` in arrays), any shape and length, 0
            included. They are read before this returns and never modified. Masked arrays are
            refused; so are tensors that require grad, but under `torch.no_grad()`, as collectives
            are not differentiated.
        op : str
            "sum", "max", or "average", also called "avg" (floats only): the sum, then one float32
            division by num_ranks; if it is invariant, the quotient is rounded once.

        Returns
        -------
        Work
            Its result has the input's form.

        Raises
        ------
        TypeError, ValueError
            If the buffers or the op do not fit, or invariant sums are of more than 1024 ranks.
        """
        memory, form = take_buffers(buffers, self.topology.num_ranks)
        return self._queue.start("all_reduce", memory, form.give_back, op=op)

    @overload
    def reduce_scatter(self, buffers: Sequence[Array], op: str = "sum") -> Work[list[Array]]: ...
    @overload
    def reduce_scatter(self, buffers: Array, op: str = "sum") -> Work[list[Array]]: ...
    def reduce_scatter(self, buffers: Any, op: str = "sum") -> Work[Any]:
        """Start the sum of all ranks' buffers, each rank keeping the part that it owns.

        Parameters
        ----------
        buffers, op
            As for `all_reduce`.

        Returns
        -------
        Work
            Its result is a list of num_ranks arrays of one dimension: rank r's holds the elements
            of the flow rooted at r, and together they are the flattened sum.

        Raises
        ------
        TypeError, ValueError
            If the buffers or the op do not fit.
        """
        memory, form = take_buffers(buffers, self.topology.num_ranks)
        owned = self._owned("reduce_scatter", memory.shape[1], memory.dtype.itemsize)

        def own_parts(image: Any) -> list[Any]:
            # The parts are views of one result, which belongs to the caller.
            rows = form.to_home(image)
            return [rows[rank, part] for rank, part in enumerate(owned)]

        return self._queue.start("reduce_scatter", memory, own_parts, op=op)

    def all_gather(self, pieces: Sequence[Array]) -> Work[Array]:
        """Start the inverse of `reduce_scatter`: every rank gets every rank's piece.

        Parameters
        ----------
        pieces : list of num_ranks arrays or tensors
            What `reduce_scatter` returned: rank r's piece has the length that r owns.

        Returns
        -------
        Work
            Its result is one array or tensor of shape (num_ranks, n), the rows equal.

        Raises
        ------
        TypeError, ValueError
            If the pieces do not fit.
        """
        memory, form = take_pieces(
            pieces, self.topology.num_ranks, lambda *size: self._owned("all_gather", *size)
        )
        return self._queue.start("all_gather", memory, form.give_back)

    @overload
    def broadcast(self, buffers: Sequence[Array], *, root: int) -> Work[list[Array]]: ...
    @overload
    def broadcast(self, buffers: Array, *, root: int) -> Work[Array]: ...
    def broadcast(self, buffers: Any, *, root: int) -> Work[Any]:
        """Start copying the root's buffer to every rank.

        Parameters
        ----------
        buffers
            As for `all_reduce`; only the root's matters.
        root : int
            Rank whose buffer is sent.

        Returns
        -------
        Work
            Its result has the input's form.

        Raises
        ------
        TypeError, ValueError
            If the buffers or the root do not fit.
        """
        memory, form = take_buffers(buffers, self.topology.num_ranks)
        return self._queue.start("broadcast", memory, form.give_back, root=root)

    @overload
    def reduce(
        self, buffers: Sequence[Array], *, root: int, op: str = "sum"
    ) -> Work[list[Array]]: ...
    @overload
    def reduce(self, buffers: Array, *, root: int, op: str = "sum") -> Work[Array]: ...
    def reduce(self, buffers: Any, *, root: int, op: str = "sum") -> Work[Any]:
        """Start the sum, the maximum or the average of all ranks' buffers on the root.

        Parameters
        ----------
        buffers, op
            As for `all_reduce`.
        root : int
            Rank that gets the sum.

        Returns
        -------
        Work
            Its result has the input's form. Only the root's row is the sum; the others hold what
            the schedule leaves in memory, the sums of their subtrees.

        Raises
        ------
        TypeError, ValueError
            If the buffers, the op or the root do not fit.
        """
        memory, form = take_buffers(buffers, self.topology.num_ranks)
        return self._queue.start("reduce", memory, form.give_back, root=root, op=op)

    def _owned(self, collective: str, num_elements: int, element_bytes: int) -> list[slice]:
        """Part of the buffer that each rank owns in a collective that scatters."""
        plan = self._plans.plan(collective, None, num_elements * element_bytes)
        return plan.owned(num_elements, element_bytes, self._runner.link_model.flit_bytes)

    def close(self) -> None:
        """Wait for what was started, and give back what the engine holds."""
        self._queue.close()

    def __exit__(self, *error: object) -> None:
        """Close it; an error goes on."""
        self.close()
