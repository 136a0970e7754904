"""Topologies as JSON text."""

import json
from typing import Any

import numpy as np

from multitree.topology.arrays import int32s
from multitree.topology.entries import ContentError, integer, integers, label, positives, shown
from multitree.topology.graphs import SCHEMA as TOPOLOGY_SCHEMA
from multitree.topology.json_text import members_of
from multitree.topology.node_names import MAX_NAME
from multitree.topology.ports import MOST_PORTS
from multitree.topology.topology import Topology
from multitree.topology.topology_checks import MAX_LINKS, MAX_RANKS

_KEYS = ("num_ranks", "num_switches", "num_ports", "names", "links")
_OPTIONAL = ("num_ports", "names")
_LINK = "[src, dst, bandwidth_gbytes_per_s, latency_ns]"
_PLUGGED = "[src, dst, bandwidth_gbytes_per_s, latency_ns, port], as links[0]"


def topology_of_json(content: Any, name: str, place: str = "") -> Topology:
    """Understand a JSON object as a topology.

    Parameters
    ----------
    content : object
        As `parse_json` has it.
    name : str
        What messages call the topology.
    place : str
        Its key in the file, if it stands in another object.

    Returns
    -------
    Topology

    Raises
    ------
    ContentError
        If an entry is missing, unknown or wrong.
    TopologyError
        If together they are no topology.
    """
    prefix = f"{place}." if place else ""
    members = members_of(content, TOPOLOGY_SCHEMA, _KEYS, place, optional=_OPTIONAL)
    num_ranks = integer(f"{prefix}num_ranks", members["num_ranks"], 2, MAX_RANKS)
    num_switches = integer(f"{prefix}num_switches", members["num_switches"], 0, MAX_RANKS)
    columns = _links(f"{prefix}links", members["links"], num_ranks + num_switches)
    counts = members.get("num_ports")
    if "num_ports" in members:
        _check_counts(f"{prefix}num_ports", counts, num_ranks + num_switches)
    names = members.get("names")
    if "names" in members:
        _check_names(f"{prefix}names", names, num_ranks + num_switches)
    return Topology(name, num_ranks, num_switches, **columns, sockets=counts, names=names)


def topology_json(topology: Topology, indent: str = "") -> str:
    """The text of a topology as a JSON object.

    Parameters
    ----------
    topology : Topology
    indent : str
        What every line but the first begins with.

    Returns
    -------
    str

    Examples
    --------
    >>> print(topology_json(Topology("pair", 2, 0, [[0, 1], [1, 0]], 16.0, 150.0)))
    {
      "schema": "multitree.topology.v1",
      "num_ranks": 2,
      "num_switches": 0,
      "links": [
        [0, 1, 16.0, 150.0],
        [1, 0, 16.0, 150.0]
      ]
    }
    """
    columns: list[Any] = [topology.links, topology.bandwidth_gbytes_per_s, topology.latency_ns]
    columns += [] if topology.plugs is None else [topology.plugs]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    lines = [f"    {json.dumps([*ends, *figures])}" for ends, *figures in rows]
    head = [f'  "schema": "{TOPOLOGY_SCHEMA}"', f'  "num_ranks": {topology.num_ranks}']
    head += [f'  "num_switches": {topology.num_switches}']
    head += [] if topology.sockets is None else [f'  "num_ports": {topology.sockets.tolist()}']
    head += [] if topology.names is None else [f'  "names": {json.dumps(topology.names)}']
    head += ['  "links": [']
    text = "{\n" + ",\n".join(head) + "\n" + ",\n".join(lines) + "\n  ]\n}"
    return text.replace("\n", f"\n{indent}")


def _check_counts(place: str, counts: Any, num_nodes: int) -> None:
    if type(counts) is not list or len(counts) != num_nodes:
        raise ContentError(f"{place} must be a list of {num_nodes}, not {shown(counts)}")
    integers(counts, 0, MOST_PORTS, lambda index: f"{place}[{index}]")


def _check_names(place: str, names: Any, num_nodes: int) -> None:
    if type(names) is not list or len(names) != num_nodes:
        raise ContentError(f"{place} must be a list of {num_nodes}, not {shown(names)}")
    for index, name in enumerate(names):
        label(f"{place}[{index}]", name, MAX_NAME)


def _links(place: str, rows: Any, num_nodes: int) -> dict[str, Any]:
    if type(rows) is not list:
        raise ContentError(f"{place} must be a list, not {shown(rows)}")
    if len(rows) > MAX_LINKS:
        raise ContentError(f"{place} must be at most {MAX_LINKS}, not {len(rows)}")
    plugged = bool(rows) and type(rows[0]) is list and len(rows[0]) == 5
    for index, row in enumerate(rows):
        if type(row) is not list or len(row) != 4 + plugged:
            wanted = _PLUGGED if plugged else _LINK
            raise ContentError(f"{place}[{index}] must be {wanted}, not {shown(row)}")
    src, dst, bandwidth, latency, *ports = zip(*rows, strict=True) if rows else [()] * 4
    integers(src, 0, num_nodes - 1, lambda index: f"{place}[{index}][0]")
    integers(dst, 0, num_nodes - 1, lambda index: f"{place}[{index}][1]")
    positives(bandwidth, lambda index: f"{place}[{index}][2]")
    positives(latency, lambda index: f"{place}[{index}][3]")
    for column in ports:
        integers(column, 0, MOST_PORTS - 1, lambda index: f"{place}[{index}][4]")
    return {
        "links": int32s("Links", [src, dst]).T,
        "bandwidth_gbytes_per_s": np.array(bandwidth, np.float64),
        "latency_ns": np.array(latency, np.float64),
        "plugs": ports[0] if plugged else None,
    }
