"""One run of a sweep: its parameters, and what came of it."""

from dataclasses import dataclass

from multitree.host.parameters import interface_model, parameter
from multitree.host.report_keys import key_table
from multitree.host.report_schema import python_type_of
from multitree.sim.timing.link_model import LinkModel

__all__ = ["COLUMNS", "Point", "PointResult", "SweepError"]


class SweepError(ValueError):
    """A sweep that cannot be defined, started or gone on with; the text says what must be."""


@dataclass(frozen=True)
class Point:
    """Parameters of one run, by the names that options of `multitree simulate` have."""

    topology: str  # as the sweep names it: a family with its sizes, or a file
    algorithm: str  # one of `ALGORITHMS`, or "auto"
    size_bytes: int  # of one rank's buffer
    engine: str  # one with a clock
    collective: str = "all_reduce"
    root: int | None = None
    dependency: str | None = None  # None is "chunk", and for "auto" the faster one
    flow_control: str = parameter("flow_control").default
    lockstep: bool = False
    dtype: str = parameter("dtype").default
    op: str = parameter("op").default
    seed: int = parameter("seed").default
    memory_cycles: int = parameter("memory_cycles").default
    clock_ghz: float = parameter("clock_ghz").default
    flit_bytes: int = parameter("flit_bytes").default
    buffer_flits: int | None = None  # None is as many as the longest link needs
    forward_flits: int = parameter("forward_flits").default
    adder_stages: int = parameter("adder_stages").default
    ranks: str | None = None  # those that take part, such as "0-3,8"; None is all
    forwarding: bool = False  # whether the others pass messages on
    link_gbytes_per_s: float | str | None = None  # of the fastest links, or a factor such as "x2"
    latency_ns: float | str | None = None
    bandwidth_key: str | None = None  # of a GraphML file, such as "capacity:Gb/s"
    latency_key: str | None = None
    kind_key: str | None = None  # of its nodes, such as "role:gpu=rank,tor=switch"

    def link_model(self) -> LinkModel:
        """Clock, flits, buffers, memory and modes; ValueError if memory cannot be so fast."""
        model = interface_model(
            clock_ghz=self.clock_ghz,
            flit_bytes=self.flit_bytes,
            buffer_flits=self.buffer_flits,
            forward_flits=self.forward_flits,
            adder_stages=self.adder_stages,
            dependency=self.dependency or "chunk",
            flow_control=self.flow_control,
        )
        return model.with_memory(self.memory_cycles)


@dataclass(frozen=True)
class PointResult:
    """What came of a point; unknown is None, and nothing depends on the machine that ran it."""

    num_ranks: int | None = None
    chosen_algorithm: str | None = None  # what ran: what was asked for, but for "auto"
    chosen_dependency: str | None = None
    schedule_hash: str | None = None
    steps_reduce_scatter: int | None = None
    steps_all_gather: int | None = None
    link_buffer_flits: int | None = None  # of every link buffer
    cycles: int | None = None
    time_us: float | None = None
    bandwidth_gbytes_per_s: float | None = None
    bound_cycles: float | None = None
    driven_bound_cycles: float | None = None  # of links at the speed they are driven at
    ratio_to_bound: float | None = None
    link_utilization: float | None = None
    exact: bool | None = None
    wire_bits_per_flit: int | None = None
    effective_bandwidth_gbytes_per_s: float | None = None
    loading_cycles: int | None = None
    flits_sent: int | None = None
    flits_received: int | None = None
    stall_dependency_cycles: int | None = None
    stall_credit_cycles: int | None = None
    stall_memory_cycles: int | None = None
    stall_sibling_cycles: int | None = None
    credits_low: int | None = None
    flits_forwarded: int | None = None
    note: str | None = None  # what the run would be faster with
    limited: str | None = None  # links that are not used at their speed, and why
    error: str | None = None  # why there is no such run; what became known before stays


COLUMNS = {name: python_type_of(key) for name, key in key_table()["sweep.results"].items()}
"""Columns of the results with the types of their values, of which any may be None."""
