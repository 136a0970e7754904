"""Options that several commands share, and the networks and schedules they name."""

import functools
import inspect
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from multitree.host.cli.output import Working
from multitree.host.parameters import (
    LATENCY_NS,
    LINK_GBYTES_PER_S,
    interface_model,
    members_of,
    scaled,
)
from multitree.sim.link_model import LinkModel, problem_with
from multitree.sim.offload import WRITE_CYCLES, Host
from multitree.sim.sizing import LinkLimit, link_limits
from multitree.topology.algorithms.build import build_compact
from multitree.topology.algorithms.registry import ALGORITHMS
from multitree.topology.checks.implicit import MAX_ROWS, AnySchedule
from multitree.topology.errors import ScheduleError, TopologyError, TopologyWarning
from multitree.topology.families.registry import FAMILIES
from multitree.topology.files.load_save import load_file
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.specs import names_file, parse_topology

__all__ = [
    "AlgorithmOption",
    "ClockOptions",
    "CollectiveOption",
    "CsvOption",
    "FlowControlOption",
    "HostOptions",
    "JsonOption",
    "MemoryCyclesOption",
    "NetworkOptions",
    "RootOption",
    "ScheduleArgument",
    "SizeOption",
    "SizesOption",
    "SpecArgument",
    "build_compactly",
    "build_schedule",
    "identity_of",
    "report_limits",
    "with_groups",
]


Result = TypeVar("Result")


def with_groups(command: Callable[..., Result]) -> Callable[..., Result]:
    """A command with one option per field in the place of each parameter that is a dataclass.

    Such a parameter has no default; the fields have one, and are annotated as options.
    """
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        group = hints[name]
        if not is_dataclass(group):
            parameters.append(parameter.replace(annotation=group))
            continue
        types = get_type_hints(group, include_extras=True)
        members = [field for field in fields(group) if field.init]
        groups[name] = group, [field.name for field in members]
        parameters += (
            parameter.replace(name=field.name, default=field.default, annotation=types[field.name])
            for field in members
        )
    expanded = signature.replace(parameters=parameters)

    @functools.wraps(command)
    def run(*values: Any, **named: Any) -> Result:
        bound = expanded.bind(*values, **named)
        bound.apply_defaults()
        given = bound.arguments
        for name, (group, members) in groups.items():
            given[name] = group(**{member: given.pop(member) for member in members})
        return command(**given)

    del run.__wrapped__
    changes = {parameter.name: parameter.annotation for parameter in parameters}
    run.__annotations__ = changes | {"return": hints.get("return", Any)}
    run.__signature__ = expanded  # type: ignore[attr-defined]
    return run


_DEFAULTS = LinkModel()
Read = TypeVar("Read")


@dataclass
class NetworkOptions:
    """How a network is read from a spec or a file, and who takes part.

    Parameters are the options; `warnings` are sentences that reading gave so far.
    """

    ranks: Annotated[
        str | None,
        typer.Option(help="Ranks that take part, such as 0-3,8, numbered anew.", metavar="RANKS"),
    ] = None
    forwarding: Annotated[
        bool,
        typer.Option("--forwarding", help="The others forward, as switches, and are not left out."),
    ] = False
    link_gbytes_per_s: Annotated[
        float | None,
        typer.Option(help="Of a family: speed of its fastest links.", metavar="GB/s"),
    ] = None
    latency_ns: Annotated[
        float | None, typer.Option(help="Of a family: latency of its links.", metavar="NS")
    ] = None
    bandwidth_key: Annotated[
        str | None,
        typer.Option(
            help="Of a GraphML file: data of edges that are their speed, such as capacity:Gb/s.",
            metavar="NAME:UNIT",
        ),
    ] = None
    latency_key: Annotated[
        str | None,
        typer.Option(help="The same for latency, such as delay:us.", metavar="NAME:UNIT"),
    ] = None
    warnings: list[str] = field(default_factory=list, init=False)

    def network(self, spec: str) -> Topology:
        """The network of the ranks that take part."""
        given = self._noting(lambda: parse_topology(spec, **self._keys))
        return self.members(self._scaled(spec, given))

    def read(self, spec: str) -> Topology | Schedule:
        """The whole network, or a file's schedule."""
        if not names_file(spec):
            return self._scaled(spec, self._noting(lambda: parse_topology(spec, **self._keys)))
        given = self._noting(lambda: load_file(spec, **self._keys))
        self._scaled(spec, given if isinstance(given, Topology) else given.topology)
        return given

    def members(self, network: Topology) -> Topology:
        """The part of a network that takes part."""
        return members_of(network, self.ranks, self.forwarding)

    @property
    def _keys(self) -> dict[str, str | None]:
        return {"bandwidth_key": self.bandwidth_key, "latency_key": self.latency_key}

    def _noting(self, read: Callable[[], Read]) -> Read:
        """What is read, its warnings printed on stderr and kept."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TopologyWarning)
            given = read()
        for each in caught:
            self.warn(" ".join(str(each.message).split()))
        return given

    def warn(self, sentence: str) -> None:
        """Print a warning on stderr and keep it, once."""
        if sentence not in self.warnings:  # a network is read again for each size
            self.warnings.append(sentence)
            typer.echo(f"multitree: warning: {sentence}", err=True)

    def _scaled(self, spec: str, network: Topology) -> Topology:
        """A family's links at the speed and latency that are asked for."""
        for option, value, (least, most) in (
            ("--link-gbytes-per-s", self.link_gbytes_per_s, LINK_GBYTES_PER_S),
            ("--latency-ns", self.latency_ns, LATENCY_NS),
        ):
            if value is None:
                continue
            if names_file(spec):
                raise TopologyError(
                    f"{option} must come with a family such as torus:4x4, not with the file "
                    f"{spec!r}, whose links have their own"
                )
            if not least <= value <= most:
                raise ValueError(f"{option} must be within {least:g}..{most:g}, not {value:g}")
        return scaled(network, self.link_gbytes_per_s, self.latency_ns)


@dataclass(frozen=True)
class ClockOptions:
    """Clock, flits and link buffers of interfaces and switches."""

    clock_ghz: Annotated[
        float, typer.Option(help="Clock of interfaces and links.", metavar="GHZ")
    ] = _DEFAULTS.clock_ghz
    flit_bytes: Annotated[
        int, typer.Option(help="Bytes of a flit, one per cycle and link: 8 to 64.", metavar="N")
    ] = _DEFAULTS.flit_bytes
    buffer_flits: Annotated[
        int | None,
        typer.Option(
            help="Flits of a link buffer; by default as many as the longest link needs.",
            metavar="N",
        ),
    ] = None
    forward_flits: Annotated[
        int,
        typer.Option(
            help="Flits that a port keeps, to forward them before memory has them: 0, or a power "
            "of two from 32 on; private links only.",
            metavar="N",
        ),
    ] = _DEFAULTS.forward_flits
    adder_stages: Annotated[
        int,
        typer.Option(help="Cycles of an addition: 4 to 6, more for a faster clock.", metavar="N"),
    ] = _DEFAULTS.add_cycles

    def model(self, **others: Any) -> LinkModel:
        """The link model of these options and of others."""
        for name, value in vars(self).items():
            problem = None if value is None else problem_with(name, value)
            if problem is not None:
                raise ValueError(f"--{name.replace('_', '-')} {problem}")
        return interface_model(**vars(self), **others)

    def figures(self, network: Topology, model: LinkModel) -> dict[str, Any]:
        """Keys that say what links and interfaces were taken to be, for programs."""
        return {
            "clock_ghz": model.clock_ghz,
            "flit_bytes": model.flit_bytes,
            "buffer_flits": model.buffer_flits_on(network),
            "forward_flits": model.forward_flits,
            "adder_stages": model.add_cycles,
            "limits": [vars(limit) for limit in link_limits(network, model)],
        }


@dataclass(frozen=True)
class HostOptions:
    """What comes before and after a collective."""

    write_cycles: Annotated[
        int,
        typer.Option(
            help="Cycles of a register write, for the loading of tables (analytic, exact).",
            metavar="N",
        ),
    ] = WRITE_CYCLES
    host_us: Annotated[
        float,
        typer.Option(
            help="Of the host: from a call to the start, and from done to its return.",
            metavar="US",
        ),
    ] = 0.0

    def host(self) -> Host:
        """The host of these figures; a ValueError if there is none."""
        return Host(self.write_cycles, self.host_us)


def report_limits(limits: tuple[LinkLimit, ...]) -> None:
    """Print links that are not used at their speed."""
    for limit in limits:
        typer.echo(f"Limited: {limit}")


DEFAULT_ALGORITHM = "multitree"
_SPECS = ", ".join(family.examples[-1] for family in FAMILIES.values())
_OTHERS = ", ".join(name for name in ALGORITHMS if name != DEFAULT_ALGORITHM)

CostModelOf = Callable[[Topology], CostModel]

SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help=f"Topology: {_SPECS}, or a .json or .graphml file.",
    ),
]
ScheduleArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="As `multitree topology` takes it, or a schedule in a .json file.",
    ),
]
AlgorithmOption = Annotated[
    str | None,
    typer.Option(help=f"{DEFAULT_ALGORITHM}, or one of {_OTHERS}.", metavar="NAME"),
]
CollectiveOption = Annotated[
    str | None,
    typer.Option(
        help="all_reduce, or reduce_scatter, all_gather, broadcast or reduce.", metavar="NAME"
    ),
]
RootOption = Annotated[
    int | None, typer.Option(help="Root rank of broadcast and reduce.", metavar="RANK")
]
FlowControlOption = Annotated[
    str, typer.Option(help="message, or packet: a head per sub-message.", metavar="NAME")
]
MemoryCyclesOption = Annotated[
    int, typer.Option(help="Memory's read, the addition and the acknowledgement.", metavar="N")
]
SizeOption = Annotated[
    str,
    typer.Option(help="One rank's buffer: bytes, or with kB, MB, KiB, ...", metavar="SIZE"),
]
SizesOption = Annotated[
    str,
    typer.Option(help="One rank's buffer, or several: 32KiB,1MB,4MiB.", metavar="SIZE,..."),
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV, a row per result.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def build_schedule(
    spec: str,
    algorithm: str | None,
    collective: str | None,
    root: int | None,
    network: NetworkOptions,
    cost_model: CostModelOf | None = None,
) -> tuple[Schedule, float]:
    """What `build_compactly` builds or reads, with all its rows; errors of both."""
    built, seconds = build_compactly(spec, algorithm, collective, root, network, cost_model)
    start = time.perf_counter()
    return built.schedule(), seconds + time.perf_counter() - start


def build_compactly(
    spec: str,
    algorithm: str | None,
    collective: str | None,
    root: int | None,
    network: NetworkOptions,
    cost_model: CostModelOf | None = None,
) -> tuple[AnySchedule, float]:
    """Build a schedule, or read and verify the one of a file, and measure the seconds it takes.

    The cost model is for builders that fit a schedule to a size. A ScheduleError says that a file
    has another algorithm, collective or root than asked for.
    """
    start = time.perf_counter()
    with Working(f"Reading {spec}"):
        given = network.read(spec)
    if isinstance(given, Schedule):
        if network.ranks is not None or network.forwarding:
            raise ScheduleError(f"{spec}: ranks must be the file's, {given.topology.num_ranks}")
        for what, asked in (("algorithm", algorithm), ("collective", collective), ("root", root)):
            if asked is not None and asked != getattr(given, what):
                has = getattr(given, what)
                raise ScheduleError(f"{spec}: {what} must be the file's, {has}, not {asked!r}")
        return given, time.perf_counter() - start
    given = network.members(given)
    algorithm = DEFAULT_ALGORITHM if algorithm is None else algorithm
    collective = "all_reduce" if collective is None else collective
    start = time.perf_counter()
    with Working(f"Building {algorithm} on {given.name}"):
        paced = None if cost_model is None else cost_model(given)
        built = build_compact(given, algorithm, collective=collective, root=root, cost_model=paced)
    return built, time.perf_counter() - start


def identity_of(built: AnySchedule) -> dict[str, Any]:
    """Keys that identify a schedule; where rows are too many, no hash is taken."""
    return {
        "topology": built.topology.name,
        "num_ranks": built.topology.num_ranks,
        "algorithm": built.algorithm,
        "collective": built.collective,
        "root": built.root,
        "schedule_hash": built.hash if built.num_transfers <= MAX_ROWS else None,
    }
