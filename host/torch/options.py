"""Options of a group, and what a job ends with that cannot be set up."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import lru_cache
from time import monotonic, sleep, time
from types import TracebackType
from typing import Any, NamedTuple

import torch

from multitree.topology.environment import variable
from multitree.topology.errors import not_one_of
from multitree.topology.file_io import write_file
from multitree.topology.networks.topology import Topology
from multitree.topology.specs import parse_topology

__all__ = ["ENGINES", "REPRODUCIBLE", "TRANSPORTS", "Options", "options_of", "refusing"]

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
                raise ValueError(not_one_of(name.capitalize(), value, choices))


def options_of(given: object, num_ranks: int, *, is_default_group: bool) -> Options:
    """Complete options by the environment and then by defaults; only `log` may stay None.

    TypeError if they are no `Options`, ValueError or TopologyError if a choice, or the number of
    the topology's ranks, is wrong.
    """
    if given is not None and not isinstance(given, Options):
        raise TypeError(f"Options must be multitree.torch.Options, not {type(given).__name__}")
    chosen = given or Options()
    names = {field.name for field in fields(Options)}
    found = {name: variable(_PREFIX + name.upper()) for name in names}
    environment = {name: value for name, value in found.items() if value is not None}
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
    _check_log(complete.log)
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


def _check_log(log: str | None) -> None:
    """Raise before the first collective would."""
    if log is None or "{rank}" in os.path.dirname(log):
        return
    folder = os.path.dirname(os.path.abspath(log))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"Folder of log {log!r} must be one that can be written to")


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


_REFUSALS = (ValueError, OSError)
"""Errors whose sentence says all that a user needs; others are of the program, with a traceback."""
_SAID, _TAKEN = "refusal/said", "refusal/taken"
_WAIT_S = 3.0
_MARK = "_multitree_rank"


class _Rank(NamedTuple):
    """A rank of a group that could not be set up, and the store by which it meets the others."""

    store: Any
    rank: int
    num_ranks: int

    def says(self, sentence: str) -> bool:
        """Whether this rank prints a sentence: the first one, or where that says another one."""
        if self.rank == 0:
            return True
        try:
            self.store.wait([_SAID], timedelta(seconds=_WAIT_S))
            said = self.store.get(_SAID).decode()
            self.store.add(_TAKEN, 1)
        # The store's errors differ by its kind. In doubt a line too many is printed.
        except Exception:
            return True
        return bool(said != sentence)

    def leave(self, sentence: str) -> None:
        """Let the other ranks know what the first one has said, before its store ends with it."""
        if self.rank or self.num_ranks == 1:
            return
        end = monotonic() + _WAIT_S
        with suppress(Exception):
            self.store.set(_SAID, sentence)
            while self.store.add(_TAKEN, 0) < self.num_ranks - 1 and monotonic() < end:
                sleep(0.02)


@contextmanager
def refusing(store: Any, rank: int, num_ranks: int) -> Iterator[None]:
    """Have an error of the block that ends the process printed as one line of the first rank, and
    shown by torchrun. A program that catches it sees no difference; with TORCH_DISTRIBUTED_DEBUG
    at INFO or DETAIL, or a hook of the program's own, nothing is changed.
    """
    try:
        yield
    except _REFUSALS as error:
        if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper() == "OFF":
            setattr(error, _MARK, _Rank(store, rank, num_ranks))
            _install()
        raise


_before: Any = None


def _install() -> None:
    """Take the place of the interpreter's or PyTorch's hook, once."""
    global _before
    hook = sys.excepthook
    # A hook of the program, or of what reports its errors, shows them as it wants.
    own = hook is not sys.__excepthook__ and not hook.__module__.startswith("torch.")
    if _before is None and not own:
        _before, sys.excepthook = hook, _report


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say what a refused group ends with; all else is the hook's that was there before."""
    where: _Rank | None = getattr(error, _MARK, None)
    if where is None:
        _before(kind, error, trace)
        return
    sentence = " ".join(str(error).split())
    if where.says(sentence):
        print(f"multitree: {sentence}", file=sys.stderr, flush=True)
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        # Without a call stack torchrun shows the message.
        message = f"{kind.__name__}: {sentence}"
        extra = {"timestamp": str(int(time()))}
        with suppress(OSError):
            write_file(path, json.dumps({"message": {"message": message, "extraInfo": extra}}))
    where.leave(sentence)
