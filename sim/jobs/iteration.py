"""An iteration of a job: compute and communication on one time line."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from multitree.sim.jobs.collective_times import CollectiveTimes
from multitree.sim.jobs.groups import Placement
from multitree.sim.jobs.job import DATA, TENSOR, Collective, Job, JobError, Stage
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.errors import check_type
from multitree.topology.networks.topology import Topology

__all__ = [
    "BUCKET_BYTES",
    "OVERLAPS",
    "CollectiveTime",
    "JobTime",
    "gradient_messages",
    "iteration",
    "time_job",
]

OVERLAPS = ("none", "layers", "buckets")
BUCKET_BYTES = (1 << 20, 25 << 20)
"""Least bytes of the first bucket and of all others, as in DistributedDataParallel."""


@dataclass(frozen=True)
class GradientMessage:
    """Gradients in one all-reduce; the backward pass of `layer` gives the last of them."""

    layer: int
    num_parameters: int


@dataclass(frozen=True)
class CollectiveTime:
    """Equal collectives of an iteration: their number per rank, and the cycles of one alone."""

    collective: Collective
    count: int
    cycles: int
    schedule_hash: str


@dataclass(frozen=True)
class JobTime:
    """Time of an iteration.

    Parameters
    ----------
    algorithm, overlap : str
    forward_cycles, backward_cycles, aggregation_cycles, update_cycles : int
        Compute of a rank: layers, sums of its arrays' gradients, new parameters.
    total_cycles : int
        From the first layer's start to the last update.
    setup_cycles : int
        Of the collectives before the first iteration, not in the total.
    collectives : tuple of CollectiveTime
        Those of the iteration, without groups of a single rank.
    groups_share_links : bool
        Whether tensor-parallel and data-parallel groups use a common link; their collectives then
        follow each other, else each kind has a network of its own.
    link_model : LinkModel
    """

    algorithm: str
    overlap: str
    forward_cycles: int
    backward_cycles: int
    aggregation_cycles: int
    update_cycles: int
    total_cycles: int
    setup_cycles: int
    collectives: tuple[CollectiveTime, ...]
    groups_share_links: bool
    link_model: LinkModel

    @property
    def compute_cycles(self) -> int:
        """Cycles in which a rank computes."""
        parts = self.forward_cycles, self.backward_cycles
        return sum(parts) + self.aggregation_cycles + self.update_cycles

    @property
    def communication_cycles(self) -> int:
        """Cycles of all collectives, as if each ran alone."""
        return sum(each.count * each.cycles for each in self.collectives)

    @property
    def num_collectives(self) -> int:
        """Collectives that a rank takes part in."""
        return sum(each.count for each in self.collectives)

    @property
    def size_bytes(self) -> int:
        """Bytes of a rank's buffers in all collectives together."""
        return sum(each.count * each.collective.size_bytes for each in self.collectives)

    @property
    def exposed_cycles(self) -> int:
        """Cycles of the total in which a rank waits for communication."""
        return self.total_cycles - self.compute_cycles

    @property
    def total_us(self) -> float:
        """Total in microseconds at the link model's clock."""
        return self.link_model.microseconds(self.total_cycles)


def time_job(
    job: Job,
    topology: Topology,
    algorithm: str = "multitree",
    *,
    overlap: str = "none",
    bucket_bytes: tuple[int, int] = BUCKET_BYTES,
    link_model: LinkModel | None = None,
    say: Callable[[str], None] | None = None,
) -> JobTime:
    """Time the iterations of a job on a network.

    Parameters
    ----------
    job : Job
    topology : Topology
        All of its ranks take part.
    algorithm : str
        One of `ALGORITHMS`, for all collectives.
    overlap : str
        "none": gradients are sent after the backward pass. "layers": those of each layer when they
        are ready. "buckets": in buckets, as PyTorch's DistributedDataParallel sends them.
    bucket_bytes : tuple of int
        Least bytes of the first bucket, and of every other one.
    link_model : LinkModel, optional
        Clock, flits, buffers and memory; `dependency` and `flow_control`.
    say : callable, optional
        Called with what is being timed.

    Returns
    -------
    JobTime

    Raises
    ------
    TypeError
        If job or topology is of another class.
    JobError
        If the number of ranks is no multiple of a group's, its ranks are not connected, or the
        overlap does not fit the job.
    ScheduleError, TopologyError
        If a group has no such schedule, or groups share links.

    Examples
    --------
    >>> from multitree import load_job, torus
    >>> job, network = load_job("ncf"), torus(4, 4)
    >>> ring, tree = (time_job(job, network, name) for name in ("ring", "multitree"))
    >>> ring.compute_cycles == tree.compute_cycles, ring.total_cycles > 1.5 * tree.total_cycles
    (True, True)
    """
    check_type("Job", job, Job)
    check_type("Topology", topology, Topology)
    placement = Placement(topology, job.tensor_parallel)
    times = CollectiveTimes(placement, algorithm, link_model or LinkModel(), say=say)
    return iteration(job, times, overlap=overlap, bucket_bytes=bucket_bytes)


def iteration(
    job: Job,
    times: CollectiveTimes,
    *,
    overlap: str = "none",
    bucket_bytes: tuple[int, int] = BUCKET_BYTES,
) -> JobTime:
    """Time line of an iteration, computed alike by all ranks from a common start.

    Layers go forward, then backward in reverse order: input gradient, weight gradient, and the
    update once all gradients are in. A layer waits for the collectives of its forward pass and its
    input gradient. Collectives of weight gradients run in order when their gradients are ready;
    without overlap the backward pass waits for them.
    """
    size = times.placement.size(TENSOR)
    if size != job.tensor_parallel:
        rule = f"tensor-parallel groups must be of {job.tensor_parallel} ranks"
        raise JobError(f"{job.name}: {rule}, not {size}")
    messages = gradient_messages(job, overlap, bucket_bytes)
    setup_cycles = sum(map(times.cycles, job.setup))
    needed = [*job.collectives, *(_reduction(job, message) for message in messages)]
    one_network = times.share_links(needed)
    line = _TimeLine(times, one_network=one_network, waits=overlap == "none")
    line.run(job, {message.layer: message for message in messages})
    return JobTime(
        times.algorithm,
        overlap,
        line.forward,
        line.backward,
        line.aggregation,
        line.update,
        line.now,
        setup_cycles,
        tuple(_counted(times, needed)),
        one_network,
        times.link_model,
    )


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
        # The first layer's gradients are ready last: they end the last bucket, however full.
        if gathered and (full or number == 0):
            yield GradientMessage(number, gathered)
            limit, gathered = limits[1] if limits else None, 0


def _counted(times: CollectiveTimes, collectives: list[Collective]) -> Iterator[CollectiveTime]:
    """Equal collectives once, with their times, in the order of their first."""
    for collective, count in Counter(collectives).items():
        schedule = times.schedule(collective)
        if schedule is not None:
            yield CollectiveTime(collective, count, times.cycles(collective), schedule.hash)


def _reduction(job: Job, message: GradientMessage) -> Collective:
    return Collective("all_reduce", message.num_parameters * job.bytes_per_parameter, DATA)


class _TimeLine:
    """Compute and collectives of one rank, in cycles."""

    def __init__(self, times: CollectiveTimes, *, one_network: bool, waits: bool) -> None:
        self._times = times
        self._one_network = one_network
        self._clock_ghz = times.link_model.clock_ghz
        self._waits = waits
        self._free: dict[str, int] = {}
        self.now = self.forward = self.backward = self.aggregation = self.update = 0

    def run(self, job: Job, messages: dict[int, GradientMessage]) -> None:
        """Run all layers forward and backward, then wait for pending collectives and update."""
        for layer in job.layers:
            self.forward += self._stage(layer.forward, waits=True)
        for number in reversed(range(len(job.layers))):
            layer = job.layers[number]
            self.backward += self._stage(layer.input_gradient, waits=True)
            self.backward += self._stage(layer.weight_gradient, waits=self._waits)
            if number in messages:
                self._send(job, messages[number])
        # Parameters are updated once all gradients of all layers are in.
        self.now = max([self.now, *self._free.values()])
        self.update = sum(self._cycles(layer.update_ns) for layer in job.layers)
        self.now += self.update

    def _send(self, job: Job, message: GradientMessage) -> None:
        """Add up the gradients of a rank's arrays, then begin their all-reduce."""
        if job.arrays is not None:
            cycles = job.arrays.aggregation_cycles(message.num_parameters)
            cycles = self._cycles(cycles / job.arrays.clock_ghz)
            self.aggregation += cycles
            self.now += cycles
        self._collect(_reduction(job, message), waits=self._waits)

    def _stage(self, stage: Stage, *, waits: bool) -> int:
        """Compute, then run the stage's collective; returns the cycles of the former."""
        cycles = self._cycles(stage.compute_ns)
        self.now += cycles
        if stage.collective is not None:
            self._collect(stage.collective, waits=waits)
        return cycles

    def _collect(self, collective: Collective, *, waits: bool) -> None:
        """Run a collective once its network is free."""
        # Groups of both kinds on common links run one collective at a time.
        network = "both" if self._one_network else collective.group
        end = max(self.now, self._free.get(network, 0)) + self._times.cycles(collective)
        # Collectives on one network follow each other in the order in which they begin.
        self._free[network] = end
        if waits:
            self.now = end

    def _cycles(self, time_ns: float) -> int:
        """Cycles that cover a time."""
        # The product may be a rounding error too large.
        return math.ceil(round(time_ns * self._clock_ghz, 6))
