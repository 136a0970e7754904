"""Options of a group: topology, algorithm, engine, transport, reproducibility."""

import os
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import torch

from multitree.topology.networks.topology import Topology
from multitree.topology.specs import parse_topology

__all__ = ["ENGINES", "REPRODUCIBLE", "TRANSPORTS", "Options", "options_of"]

ENGINES = ("torch", "numpy", "rtl")
TRANSPORTS = ("auto", "shared_memory", "gloo", "nccl")
REPRODUCIBLE = ("schedule", "invariant")

_PREFIX = "MULTITREE_"
_CHOICES = {"engine": ENGINES, "transport": TRANSPORTS, "reproducible": REPRODUCIBLE}


@dataclass(frozen=True)
class Options:
    """Options of a group, as `pg_options` of `init_process_group` and `new_group`.

    What is None is taken from the environment, under the name of the field in capitals behind
    ``MULTITREE_``, and else has the value that is named first.

    Parameters
    ----------
    topology : Topology or str, optional
        "full:N" for a group of N ranks, or any other one with as many ranks as the group, such
        as "torus:2x2", or the path of a file.
    algorithm : str, optional
        "multitree", or another one that `build` knows, or "auto".
    engine : str, optional
        "torch": each rank executes its own table; "numpy" and "rtl": the first rank of the group
        runs all ranks' tables, by the definition or on emulated interfaces.
    transport : str, optional
        "auto": shared memory where all ranks are on one host, else gloo's point-to-point
        messages; "shared_memory" or "gloo". "nccl": the same as "auto" for tensors on the CPU,
        and NCCL's messages for tensors on CUDA, which are copied to the CPU otherwise.
    reproducible : str, optional
        "schedule": the bits of the schedule on every engine; "invariant": bits that do not
        depend on topology, schedule or number of ranks.
    log : str, optional
        Path of a file to which every collective appends a line of JSON; "{rank}" in it is the
        rank in the default group. None for no file.

    Raises
    ------
    ValueError
        If there is no such choice.
    """

    topology: Topology | str | None = None
    algorithm: str | None = None
    engine: str | None = None
    transport: str | None = None
    reproducible: str | None = None
    log: str | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise ValueError(
                    f"{name.capitalize()} must be one of {', '.join(choices)}, not {value!r}"
                )


def options_of(given: object, num_ranks: int, *, is_default_group: bool) -> Options:
    """Complete options by the environment and then by defaults; only `log` may stay None.

    TypeError if they are no `Options`, ValueError or TopologyError if a choice, or the number of
    the topology's ranks, is wrong.
    """
    if given is not None and not isinstance(given, Options):
        raise TypeError(f"Options must be multitree.torch.Options, not {type(given).__name__}")
    chosen = given or Options()
    names = {field.name for field in fields(Options)}
    environment = {
        name: os.environ[_PREFIX + name.upper()]
        for name in names
        if os.environ.get(_PREFIX + name.upper())
    }
    for name, value in environment.items():
        if getattr(chosen, name) is None and name != "topology":
            chosen = replace(chosen, **{name: value})
    topology = _topology(
        chosen.topology, environment.get("topology"), num_ranks, is_default_group=is_default_group
    )
    complete = Options(
        topology=topology,
        algorithm=chosen.algorithm or "multitree",
        engine=chosen.engine or ENGINES[0],
        transport=chosen.transport or TRANSPORTS[0],
        reproducible=chosen.reproducible or REPRODUCIBLE[0],
        log=chosen.log,
    )
    _check_transport(complete)
    return complete


def _check_transport(chosen: Options) -> None:
    if chosen.transport != "nccl":
        return
    if chosen.engine != ENGINES[0]:
        raise ValueError(f"Transport nccl must have engine torch, not {chosen.engine}")
    if not torch.distributed.is_nccl_available() or not torch.cuda.is_available():
        raise ValueError(
            f"Transport nccl must have a PyTorch with NCCL and a GPU, not {torch.__version__} "
            f"with {torch.cuda.device_count()} GPUs"
        )


def _topology(
    chosen: Topology | str | None, named: str | None, num_ranks: int, *, is_default_group: bool
) -> Topology | None:
    """The topology of a group; None for one rank, which needs none."""
    # A topology of the environment is that of the default group. Other groups take it if it has as
    # many ranks, and else are fully connected.
    spec = chosen if chosen is not None else named
    if num_ranks == 1 and (chosen is None or not isinstance(chosen, Topology)):
        return None
    full = f"full:{num_ranks}"
    topology = spec if isinstance(spec, Topology) else _parsed(spec or full)
    if topology.num_ranks == num_ranks:
        return topology
    if chosen is None and not is_default_group:
        return _parsed(full)
    raise ValueError(
        f"Topology must have as many ranks as the group, {num_ranks}, "
        f"but {topology.name} has {topology.num_ranks}"
    )


def _parsed(spec: str) -> Topology:
    """The topology of a spec, the same one for all groups, or of a file, which may change."""
    return parse_topology(spec) if os.path.exists(spec) else _known(spec)


_known = lru_cache(maxsize=32)(parse_topology)
