"""Options that several commands share, and the networks and schedules they name."""

import functools
import inspect
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_origin, get_type_hints

import typer

from multitree.host.cli.output import Working
from multitree.host.parameters import (
    DEFAULT_ALGORITHM,
    SCALED,
    interface_model,
    members_of,
    parameter,
    scale_of,
    scaled,
)
from multitree.sim.timing.link_model import LinkModel, problem_with
from multitree.sim.timing.offload import Host
from multitree.sim.timing.sizing import LinkLimit, link_limits
from multitree.topology.algorithms.build import build_compact
from multitree.topology.algorithms.registry import lockstep_note
from multitree.topology.checks.implicit import AnySchedule, hash_of
from multitree.topology.errors import ScheduleError, TopologyWarning
from multitree.topology.files.load_save import load_file
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.specs import names_file, parse_topology

__all__ = [
    "ALGORITHM_OPTIONS",
    "ClockOptions",
    "HostOptions",
    "NetworkOptions",
    "ScheduleOptions",
    "build_compactly",
    "build_schedule",
    "check_range",
    "identity_of",
    "read_scale",
    "report_limits",
    "with_options",
]

ALGORITHM_OPTIONS = ["--algorithm", "--algorithms"]
"""Both are taken wherever one of them is, be it one name or a list that is asked for."""

Result = TypeVar("Result")


def with_options(command: Callable[..., Result]) -> Callable[..., Result]:
    """A command with typer's options: those of the table of parameters, by the names of its own.

    A parameter that is a dataclass becomes one option per field. One that is annotated as an
    option is in no table. The table gives the default where there is none.
    """
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, given in signature.parameters.items():
        group = hints[name]
        if not is_dataclass(group):
            parameters.append(_option(given, group, command.__name__))
            continue
        types = get_type_hints(group, include_extras=True)
        members = [field for field in fields(group) if field.init]
        groups[name] = group, [field.name for field in members]
        for member in members:
            own = given.replace(name=member.name, default=member.default)
            parameters.append(_option(own, types[member.name], command.__name__))
    # Options have defaults; arguments, and options without one, may stand behind them.
    named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    expanded = signature.replace(parameters=named)

    @functools.wraps(command)
    def run(**values: Any) -> Result:
        for name, (group, members) in groups.items():
            values[name] = group(**{member: values.pop(member) for member in members})
        return command(**values)

    del run.__wrapped__
    changes = {each.name: each.annotation for each in parameters}
    run.__annotations__ = changes | {"return": hints.get("return", Any)}
    run.__signature__ = expanded  # type: ignore[attr-defined]
    return run


def _option(given: inspect.Parameter, kind: Any, command: str) -> inspect.Parameter:
    """A parameter of a command, annotated as the option or argument of the table."""
    if get_origin(kind) is Annotated:
        return given.replace(annotation=kind)
    row = parameter(given.name, command)
    text: dict[str, Any] = {"help": row.help, "metavar": row.metavar}
    if row.name == "spec":
        return given.replace(annotation=Annotated[kind, typer.Argument(**text)])
    names = [row.option] if kind is bool else ALGORITHM_OPTIONS if row.name == "algorithm" else []
    default = row.default if given.default is inspect.Parameter.empty else given.default
    return given.replace(annotation=Annotated[kind, typer.Option(*names, **text)], default=default)


Read = TypeVar("Read")


def check_range(name: str, value: float) -> None:
    """Raise a ValueError where the value of an option is out of its range."""
    if (problem := parameter(name).problem_with(value)) is not None:
        raise ValueError(f"{parameter(name).option} {problem}")


def read_scale(name: str, value: str) -> float | str:
    """The value of an option as of `scale_of`, or a ValueError that names the option."""
    try:
        return scale_of(name, value)
    except ValueError as error:
        raise ValueError(f"{parameter(name).option} {error}") from None


@dataclass
class NetworkOptions:
    """How a network is read from a spec or a file, who takes part, and the warnings so far."""

    ranks: str | None = None
    forwarding: bool = False
    link_gbytes_per_s: str | None = None
    latency_ns: str | None = None
    bandwidth_key: str | None = None
    latency_key: str | None = None
    kind_key: str | None = None
    warnings: list[str] = field(default_factory=list, init=False)

    def network(self, spec: str) -> Topology:
        """The network of the ranks that take part."""
        given = self._noting(lambda: parse_topology(spec, **self._keys))
        return self.members(self._scaled(given))

    def read(self, spec: str) -> Topology | Schedule:
        """The whole network, or a file's schedule."""
        if not names_file(spec):
            return self._scaled(self._noting(lambda: parse_topology(spec, **self._keys)))
        given = self._noting(lambda: load_file(spec, **self._keys))
        if isinstance(given, Topology):
            return self._scaled(given)
        if self.link_gbytes_per_s is not None or self.latency_ns is not None:
            raise ValueError(f"{spec}: speed and latency must be those of the file's schedule")
        return given

    def members(self, network: Topology) -> Topology:
        """The part of a network that takes part."""
        return members_of(network, self.ranks, self.forwarding)

    @property
    def _keys(self) -> dict[str, str | None]:
        names = "bandwidth_key", "latency_key", "kind_key"
        return {name: getattr(self, name) for name in names}

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

    def warn_of_slots(self, topology: Topology, algorithms: Iterable[str], lockstep: bool) -> None:
        """Warn where an algorithm that is run would keep its slots in lockstep."""
        for name in algorithms:
            note = lockstep_note(name, topology.num_switches, lockstep=lockstep)
            if note is not None:
                self.warn(f"{topology.name}: {note}")

    def _scaled(self, network: Topology) -> Topology:
        """Links at the speed and latency that are asked for."""
        asked = ((name, getattr(self, name)) for name in SCALED)
        return scaled(
            network, *(None if value is None else read_scale(name, value) for name, value in asked)
        )


@dataclass(frozen=True)
class ClockOptions:
    """Clock, flits and link buffers of interfaces and switches."""

    clock_ghz: float = parameter("clock_ghz").default
    flit_bytes: int = parameter("flit_bytes").default
    buffer_flits: int | None = None
    forward_flits: int = parameter("forward_flits").default
    adder_stages: int = parameter("adder_stages").default

    def model(self, **others: Any) -> LinkModel:
        """The link model of these options and of others."""
        for name, value in vars(self).items():
            problem = None if value is None else problem_with(name, value)
            if problem is not None:
                raise ValueError(f"{parameter(name).option} {problem}")
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

    write_cycles: int = parameter("write_cycles").default
    host_us: float = parameter("host_us").default

    def host(self) -> Host:
        """The host of these figures; a ValueError if there is none."""
        return Host(self.write_cycles, self.host_us)


def report_limits(limits: tuple[LinkLimit, ...]) -> None:
    """Print links that are not used at their speed."""
    for limit in limits:
        typer.echo(f"Limited: {limit}")


CostModelOf = Callable[[Topology], CostModel]


@dataclass(frozen=True)
class ScheduleOptions:
    """The algorithm, collective and root that are asked for; None is the file's or the default."""

    algorithm: str | None = None
    collective: str | None = None
    root: int | None = None

    def __post_init__(self) -> None:
        if self.algorithm and "," in self.algorithm:
            raise ValueError(
                f"Algorithm must be one, not {self.algorithm!r}; `multitree compare` takes several"
            )


def build_schedule(
    spec: str,
    wanted: ScheduleOptions,
    network: NetworkOptions,
    cost_model: CostModelOf | None = None,
) -> tuple[Schedule, float]:
    """What `build_compactly` builds or reads, with all its rows; errors of both."""
    built, seconds = build_compactly(spec, wanted, network, cost_model)
    start = time.perf_counter()
    return built.schedule(), seconds + time.perf_counter() - start


def build_compactly(
    spec: str,
    wanted: ScheduleOptions,
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
        for what, asked in vars(wanted).items():
            if asked is not None and asked != getattr(given, what):
                has = getattr(given, what)
                raise ScheduleError(f"{spec}: {what} must be the file's, {has}, not {asked!r}")
        return given, time.perf_counter() - start
    given = network.members(given)
    algorithm = wanted.algorithm or DEFAULT_ALGORITHM
    asked = {"collective": wanted.collective or "all_reduce", "root": wanted.root}
    start = time.perf_counter()
    with Working(f"Building {algorithm} on {given.name}"):
        sized = None if cost_model is None else cost_model(given)
        built = build_compact(given, algorithm, **asked, cost_model=sized)
    return built, time.perf_counter() - start


def identity_of(built: AnySchedule) -> dict[str, Any]:
    """Keys that identify a schedule; where rows are too many, no hash is taken."""
    return {
        "topology": built.topology.name,
        "num_ranks": built.topology.num_ranks,
        "algorithm": built.algorithm,
        "collective": built.collective,
        "root": built.root,
        "schedule_hash": hash_of(built),
    }
