"""Topologies as JSON files."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from multitree.topology.errors import TopologyError
from multitree.topology.topology import Topology
from multitree.topology.topology_checks import MAX_LINKS

SCHEMA = "multitree.topology.v1"
MAX_FILE_BYTES = 256 * 1024 * 1024
_KEYS = ("schema", "num_ranks", "num_switches", "links")


def load_topology(path: str | Path) -> Topology:
    """Read a topology from a JSON file.

    The file is one object with the keys ``schema`` ("multitree.topology.v1"), ``num_ranks``,
    ``num_switches`` and ``links``, a list of ``[src, dst, bandwidth_gbytes_per_s,
    latency_ns]``. The topology is called by the file's name.

    Parameters
    ----------
    path : str or pathlib.Path

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If the file cannot be read, is too large, is not JSON, or describes no topology;
        the message has the file's name and the place in it.
    """
    name = str(path)
    content = _parsed(name, _text(name))
    if not isinstance(content, dict):
        raise TopologyError(f"{name}: content must be an object, not {_shown(content)}")
    for key in content:
        if key not in _KEYS:
            raise TopologyError(f"{name}: keys must be {', '.join(_KEYS)}, not {_shown(key)}")
    for key in _KEYS:
        if key not in content:
            raise TopologyError(f"{name}: {key} must be there, not missing")
    if content["schema"] != SCHEMA:
        raise TopologyError(f"{name}: schema must be {SCHEMA!r}, not {_shown(content['schema'])}")
    for key in ("num_ranks", "num_switches"):
        if type(content[key]) is not int:
            raise TopologyError(f"{name}: {key} must be an integer, not {_shown(content[key])}")
    links, speeds = _links(name, content["links"])
    try:
        return Topology(
            Path(name).name,
            content["num_ranks"],
            content["num_switches"],
            links,
            speeds[:, 0],
            speeds[:, 1],
        )
    except TopologyError as error:
        raise TopologyError(f"{name}: {error}") from None


def save_topology(topology: Topology, path: str | Path) -> None:
    """Write a topology to a JSON file that `load_topology` reads, one link per line.

    Parameters
    ----------
    topology : Topology
    path : str or pathlib.Path

    Raises
    ------
    TopologyError
        If the file cannot be written.
    """
    rows = zip(
        topology.links.tolist(),
        topology.bandwidth_gbytes_per_s.tolist(),
        topology.latency_ns.tolist(),
        strict=True,
    )
    lines = ",\n    ".join(json.dumps([*ends, speed, delay]) for ends, speed, delay in rows)
    text = (
        f'{{\n  "schema": "{SCHEMA}",\n  "num_ranks": {topology.num_ranks},\n'
        f'  "num_switches": {topology.num_switches},\n  "links": [\n    {lines}\n  ]\n}}\n'
    )
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"{path}: file must be writable, not {error.strerror}") from None


def _text(name: str) -> str:
    if "\0" in name:
        raise TopologyError(f"Path of a file must be without null characters, not {name!r}")
    try:
        size = Path(name).stat().st_size
        if size > MAX_FILE_BYTES:
            raise TopologyError(f"{name}: file must be at most {MAX_FILE_BYTES} bytes, not {size}")
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"{name}: file must be readable, not {error.strerror}") from None
    except UnicodeDecodeError:
        raise TopologyError(f"{name}: file must be UTF-8 text, not binary") from None


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise TopologyError(f"{name}: {place} must be JSON, not: {error.msg}") from None
    except (RecursionError, ValueError):
        raise TopologyError(f"{name}: content must be a plain object, not this") from None


def _links(name: str, rows: Any) -> tuple[Any, Any]:
    if not isinstance(rows, list):
        raise TopologyError(f"{name}: links must be a list, not {_shown(rows)}")
    if len(rows) > MAX_LINKS:
        raise TopologyError(f"{name}: links must be at most {MAX_LINKS}, not {len(rows)}")
    for index, row in enumerate(rows):
        whole = isinstance(row, list) and len(row) == 4 and all(type(end) is int for end in row[:2])
        if not whole or not all(type(number) in (int, float) for number in row[2:]):
            raise TopologyError(
                f"{name}: links[{index}] must be [src, dst, bandwidth_gbytes_per_s, latency_ns], "
                f"not {_shown(row)}"
            )
        if not all(0 <= end < 2**31 for end in row[:2]) or not all(abs(x) < 1e300 for x in row[2:]):
            raise TopologyError(f"{name}: links[{index}] must be in range, not {_shown(row)}")
    links = np.array([row[:2] for row in rows], np.int32).reshape(-1, 2)
    return links, np.array([row[2:] for row in rows], np.float64).reshape(-1, 2)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
