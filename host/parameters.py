"""Parameters of runs: one table for options, keys of sweeps and their ranges."""

import re
from dataclasses import dataclass, replace
from typing import Any

from multitree.host.engines import CLOCKED_ENGINES
from multitree.host.work import OPS
from multitree.nic.driver.commands import DEPENDENCIES, FLOW_CONTROLS
from multitree.nic.driver.config import LIMITS, Config
from multitree.sim.choice import AUTO
from multitree.sim.timing.link_model import (
    CLOCK_GHZ,
    LEAST_MEMORY_CYCLES,
    MOST_MEMORY_CYCLES,
    LinkModel,
)
from multitree.sim.timing.offload import WRITE_CYCLES
from multitree.topology.algorithms.registry import ALGORITHMS
from multitree.topology.collectives import COLLECTIVES, DTYPES
from multitree.topology.errors import not_one_of
from multitree.topology.families.registry import FAMILIES
from multitree.topology.networks.nodes import MAX_RANKS
from multitree.topology.networks.subsets import among
from multitree.topology.networks.topology import Topology

__all__ = [
    "DEFAULT_ALGORITHM",
    "PARAMETERS",
    "SCALED",
    "Parameter",
    "interface_model",
    "members_of",
    "modes_of",
    "parameter",
    "scale_of",
    "scaled",
    "swept_parameters",
]

DEFAULT_ALGORITHM = "multitree"
_OTHERS = ", ".join(name for name in ALGORITHMS if name != DEFAULT_ALGORITHM)
_SPECS = ", ".join(family.examples[-1] for family in FAMILIES.values())
_DEFAULTS = LinkModel()
_ON_ENGINES = ("simulate", "view")


@dataclass(frozen=True)
class Parameter:
    """A value that commands take as an option, and sweeps as a key, by the same name.

    It is one of some choices, or within a range, which includes both ends. Where a command needs
    another text or default, the table has a row for that command before the row for all.
    """

    name: str
    help: str
    metavar: str | None = None
    default: Any = None
    choices: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    commands: tuple[str, ...] = ()
    reported: str = ""
    swept: bool = False

    @property
    def key(self) -> str:
        """The key in reports, and the field of a sweep's point."""
        return self.reported or self.name

    @property
    def option(self) -> str:
        """The option on the command line."""
        return f"--{self.name.replace('_', '-')}"

    def problem_with(self, value: float) -> str | None:
        """The rule and a value that is out of the range, to stand behind the name."""
        if self.range is None or self.range[0] <= value <= self.range[1]:
            return None
        least, most = self.range
        return f"must be within {least:g}..{most:g}, not {value:g}"


def _swept(*values: Any, **named: Any) -> Parameter:
    return replace(Parameter(*values, **named), swept=True)


# Of what a sweep names, in the order of its results; then what commands alone take.
PARAMETERS = (
    _swept(
        "spec",
        f"Topology: {_SPECS}, or a .json or .graphml file.",
        "SPEC",
        commands=("topology", "compare", "explain", "job"),
        reported="topology",
    ),
    Parameter(
        "spec",
        "As `multitree schedule` takes it, or a folder of benches that was written.",
        "SPEC",
        commands=("cocotb",),
    ),
    Parameter(
        "spec",
        "As `multitree topology` takes it, or a schedule in a .json file.",
        "SPEC",
    ),
    _swept(
        "algorithm",
        "As for `multitree schedule`, or auto: the fastest by the engine analytic.",
        "NAME",
        choices=(*ALGORITHMS, AUTO),
        commands=_ON_ENGINES,
    ),
    Parameter(
        "algorithm", f"{DEFAULT_ALGORITHM}, or one of {_OTHERS}.", "NAME", choices=tuple(ALGORITHMS)
    ),
    _swept(
        "size",
        "One rank's buffer, or several: 32KiB,1MB,4MiB.",
        "SIZE,...",
        "1MiB",
        commands=("simulate", "compare", "explain"),
        reported="size_bytes",
    ),
    Parameter(
        "size",
        "One rank's buffer; the page then plays cycles of an engine, else steps.",
        "SIZE",
        commands=("view",),
    ),
    Parameter("size", "One rank's buffer: bytes, or with kB, MB, KiB, ...", "SIZE", "1MiB"),
    Parameter(
        "engine",
        "As for `multitree simulate`; by default analytic.",
        "NAME",
        choices=CLOCKED_ENGINES,
        commands=("view",),
    ),
    _swept("engine", "rtl, exact or analytic.", "NAME", "rtl", choices=CLOCKED_ENGINES),
    _swept(
        "collective",
        "all_reduce, or reduce_scatter, all_gather, broadcast or reduce.",
        "NAME",
        choices=COLLECTIVES,
    ),
    _swept("root", "Root rank of broadcast and reduce.", "RANK", range=(0, MAX_RANKS - 1)),
    _swept(
        "dependency",
        "chunk, or submessage for cut-through; by default chunk, and with auto the faster.",
        "NAME",
        choices=DEPENDENCIES,
        commands=_ON_ENGINES,
    ),
    Parameter(
        "dependency",
        "chunk, or submessage for cut-through.",
        "NAME",
        "chunk",
        choices=DEPENDENCIES,
    ),
    _swept(
        "flow_control",
        "message, or packet: a head per sub-message.",
        "NAME",
        "message",
        choices=FLOW_CONTROLS,
    ),
    _swept("lockstep", "Wait out every step's estimated time.", default=False),
    _swept(
        "dtype",
        "Of the data, in rtl: float32, int32 or bfloat16.",
        "NAME",
        "float32",
        choices=tuple(DTYPES),
    ),
    _swept(
        "op",
        "Of the data, in rtl: sum, max, or average (avg).",
        "NAME",
        "sum",
        choices=tuple(OPS),
    ),
    # Columns of files have 64 bits.
    _swept("seed", "Of the data, in rtl.", "NUMBER", 1, range=(0, 2**62)),
    Parameter(
        "memory_cycles",
        "Memory's read, the addition and the acknowledgement; by default 12.",
        "N",
        commands=("view",),
    ),
    _swept(
        "memory_cycles",
        "Memory's read, the addition and the acknowledgement.",
        "N",
        12,
        range=(LEAST_MEMORY_CYCLES, MOST_MEMORY_CYCLES),
    ),
    _swept(
        "clock_ghz",
        "Clock of interfaces and links.",
        "GHZ",
        _DEFAULTS.clock_ghz,
        range=CLOCK_GHZ,
    ),
    _swept(
        "flit_bytes",
        "Bytes of a flit, one per cycle and link: 8 to 64.",
        "N",
        _DEFAULTS.flit_bytes,
        range=LIMITS["flit_bytes"],
    ),
    _swept(
        "buffer_flits",
        "Flits of a link buffer; by default as many as the longest link needs.",
        "N",
        range=LIMITS["buffer_flits"],
    ),
    _swept(
        "forward_flits",
        "Flits that a port keeps, to forward them before memory has them: 0, or a power of two "
        "from 32 on; private links only.",
        "N",
        _DEFAULTS.forward_flits,
        range=LIMITS["forward_flits"],
    ),
    _swept(
        "adder_stages",
        "Cycles of an addition: 4 to 6, more for a faster clock.",
        "N",
        _DEFAULTS.add_cycles,
        range=LIMITS["adder_stages"],
    ),
    _swept("ranks", "Ranks that take part, such as 0-3,8, numbered anew.", "RANKS"),
    _swept("forwarding", "The others forward, as switches, and are not left out.", default=False),
    _swept(
        "link_gbytes_per_s",
        "Speed of the fastest links, others in proportion, or a factor such as x2 of all.",
        "GB/s",
        range=(0.1, 100_000.0),
    ),
    _swept("latency_ns", "The same for latency, such as 300 or x0.5.", "NS", range=(0.001, 1e9)),
    _swept(
        "bandwidth_key",
        "Of a GraphML file: data of edges that are their speed, such as capacity:Gb/s.",
        "NAME:UNIT",
    ),
    _swept("latency_key", "The same for latency, such as delay:us.", "NAME:UNIT"),
    _swept(
        "kind_key",
        "The same for kinds of nodes, rank and switch, such as role:gpu=rank,tor=switch.",
        "NAME:VALUE=KIND,...",
    ),
    Parameter(
        "write_cycles",
        "Cycles of a register write, for the loading of tables (analytic, exact).",
        "N",
        WRITE_CYCLES,
    ),
    Parameter(
        "host_us",
        "Of the host: from a call to the start, and from done to its return.",
        "US",
        0.0,
    ),
    Parameter(
        "limit_s",
        "CPU seconds to build a schedule and to time it with the engine analytic; 0: no limit.",
        "SECONDS",
        600.0,
        range=(0.0, 1e9),
        commands=("figure",),
    ),
    Parameter(
        "limit_s",
        "CPU seconds to build each schedule, and to time it; 0: no limit.",
        "SECONDS",
        60.0,
        range=(0.0, 1e9),
    ),
    Parameter("jobs", "Processes; by default one per core.", "N"),
    Parameter("memory", "Memory side: sram (plain channels) or axi (AXI4).", "KIND", "sram"),
    Parameter(
        "dtypes", "Types of elements that it can reduce.", "NAME,...", ",".join(Config().dtypes)
    ),
    Parameter("crossings", "Links of the network in the benches on another clock.", default=False),
    Parameter(
        "force", "Replace results of another file there.", default=False, commands=("sweep",)
    ),
    Parameter("force", "Replace files there that are not as they were written.", default=False),
    Parameter("csv", "Print CSV, a row per result.", default=False),
    Parameter("json", "Print JSON for programs.", default=False),
)


def parameter(name: str, command: str = "") -> Parameter:
    """The row of a command's parameter, or of all commands that have no row of their own."""
    rows = [each for each in PARAMETERS if each.name == name]
    own = [each for each in rows if command in each.commands]
    return (own or [each for each in rows if not each.commands])[0]


def swept_parameters() -> dict[str, Parameter]:
    """Parameters of sweeps by their key in a sweep's file."""
    named = {"spec": "topology"}
    return {named.get(each.name, each.name): each for each in PARAMETERS if each.swept}


def modes_of(scheme: str) -> tuple[str, dict[str, str]]:
    """An algorithm's name and the modes behind it, such as "multitree/submessage/packet".

    ValueError names a mode that is unknown, or of which there are two.
    """
    name, *modes = scheme.split("/")
    found: dict[str, str] = {}
    for mode in modes:
        if mode not in (*DEPENDENCIES, *FLOW_CONTROLS):
            raise ValueError(not_one_of(f"Mode of {name}", mode, (*DEPENDENCIES, *FLOW_CONTROLS)))
        kind = "dependency" if mode in DEPENDENCIES else "flow_control"
        if kind in found:
            raise ValueError(f"{name} must have one {kind.replace('_', ' ')}, not {scheme!r}")
        found[kind] = mode
    return name, found


def members_of(network: Topology, ranks: str | None, forwarding: bool) -> Topology:
    """The network of the ranks that take part: all, or those of a list such as ``0-3,8``."""
    if ranks is None:
        if forwarding:
            raise ValueError("Forwarding must come with ranks, which say who takes part")
        return network
    chosen: list[int] = []
    for span in ranks.split(","):
        match = re.fullmatch(r" *(\d{1,9})(?:-(\d{1,9}))? *", span, flags=re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(f"Ranks must be like 0-3,8, not {ranks!r}")
        chosen += range(first, min(last, max(first, network.num_ranks)) + 1)
    if forwarding and set(chosen) == set(range(network.num_ranks)):
        raise ValueError(f"Forwarding must come with ranks that leave some out, not {ranks!r}")
    return among(network, chosen, forwarding=forwarding)


SCALED = {
    "link_gbytes_per_s": ("bandwidth_gbytes_per_s", "links", "GB/s"),
    "latency_ns": ("latency_ns", "latency", "ns"),
}
"""Parameters of links: the field that each scales, and how the network's name says so."""
_FACTOR = re.compile(r"x([0-9]{1,6}(?:\.[0-9]{1,6})?)", re.ASCII)


def scale_of(name: str, given: float | str) -> float | str:
    """A speed or a latency, or a factor such as "x2" of the network's own; a ValueError if none."""
    text = str(given).strip()
    if (match := _FACTOR.fullmatch(text)) and float(match[1]) > 0:
        return text
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"must be a number, or a factor such as x2, not {given!r}") from None
    if (problem := parameter(name).problem_with(value)) is not None:
        raise ValueError(problem)
    return value


def scaled(network: Topology, *asked: float | str | None) -> Topology:
    """A network whose fastest or longest links are as `asked`, in the order of `SCALED`, or None.

    Others are scaled alike. A text such as "x2" is the factor itself. The network's name says so.
    """
    changes, said = dict[str, Any](), list[str]()
    for (name, (field, what, unit)), given in zip(SCALED.items(), asked, strict=True):
        if given is not None:
            have, scale = getattr(network, field), scale_of(name, given)
            text = scale if isinstance(scale, str) else f"{scale:g} {unit}"
            said.append(f"{what} {text}")
            factor = float(scale[1:]) if isinstance(scale, str) else scale / float(have.max())
            changes[field] = have * factor
    named = f"{network.name} ({', '.join(said)})"
    return replace(network, name=named, **changes) if changes else network


def interface_model(
    *,
    clock_ghz: float,
    flit_bytes: int,
    buffer_flits: int | None,
    forward_flits: int,
    adder_stages: int,
    **others: Any,
) -> LinkModel:
    """The link model of interfaces by the names that options have, and of other figures."""
    return LinkModel(
        clock_ghz=clock_ghz,
        flit_bytes=flit_bytes,
        buffer_flits=buffer_flits,
        forward_flits=forward_flits,
        add_cycles=adder_stages,
        **others,
    )
