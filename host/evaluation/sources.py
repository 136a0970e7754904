"""The topologies that a sweep names, read once."""

import hashlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

from multitree.host.evaluation.definition import Grid
from multitree.host.evaluation.point import Point, SweepError
from multitree.host.parameters import members_of, scaled
from multitree.topology.errors import TopologyError, TopologyWarning
from multitree.topology.networks.topology import Topology
from multitree.topology.specs import names_file, parse_topology

__all__ = ["Source", "network_of", "sources_of"]

_KEPT = 4
_KEYS = "bandwidth_key", "latency_key", "kind_key"
_Keys = tuple[str | None, ...]


@dataclass(frozen=True)
class Source:
    """The spec or the absolute path of a topology, and the SHA-256 of a file's content."""

    spec: str
    digest: str | None


def sources_of(grid: Grid) -> tuple[dict[str, Source], list[str]]:
    """Every topology of a sweep by its name there, each read once, and the warnings of reading."""
    given = [grid.values.get(name, (None,)) for name in _KEYS]
    sources, said = {}, dict[str, None]()
    for spec in grid.values["topology"]:
        source = _found(grid, spec)
        # Keys are for files of graphs; without any a family is right.
        keys = [*product(*given)] if source.digest else [(None,) * len(_KEYS)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TopologyWarning)
            _check_some_read(grid, source, keys)
        said |= {" ".join(str(each.message).split()): None for each in caught}
        sources[spec] = source
    return sources, list(said)


def _found(grid: Grid, spec: str) -> Source:
    path = grid.folder / spec
    if not names_file(str(path)):
        return Source(spec, None)
    return Source(str(path), _digest(path))


def _check_some_read(grid: Grid, source: Source, keys: Iterable[_Keys]) -> None:
    problems = []
    for each in keys:
        try:
            _read(source, each)
            return
        except TopologyError as error:
            problems.append(error)
    raise SweepError(f"{grid.name}: topology must be one that can be read, but {problems[0]}")


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SweepError(f"{path}: file must be readable, not: {error.strerror}") from None


def network_of(point: Point, source: Source) -> Topology:
    """The network of a point, with its ranks and speeds; the last few are kept.

    A SweepError says that the file has changed since the sweep began.
    """
    return _network(
        source,
        tuple(getattr(point, name) for name in _KEYS),
        point.link_gbytes_per_s,
        point.latency_ns,
        point.ranks,
        point.forwarding,
    )


@lru_cache(_KEPT)
def _network(
    source: Source,
    keys: _Keys,
    link_gbytes_per_s: float | str | None,
    latency_ns: float | str | None,
    ranks: str | None,
    forwarding: bool,
) -> Topology:
    if source.digest and _digest(Path(source.spec)) != source.digest:
        raise SweepError(f"{source.spec}: file must stay as it was when the sweep began")
    read = _read(source, keys)
    return members_of(scaled(read, link_gbytes_per_s, latency_ns), ranks, forwarding)


def _read(source: Source, keys: _Keys) -> Topology:
    return parse_topology(source.spec, **dict(zip(_KEYS, keys, strict=True)))
