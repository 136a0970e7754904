"""Topologies as JSON text."""

import json
from typing import Any

import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, int32s
from multitree.topology.entries import ContentError, integer, integers, positives, shown
from multitree.topology.json_text import members_of
from multitree.topology.topology import Topology
from multitree.topology.topology_checks import MAX_LINKS, MAX_RANKS

TOPOLOGY_SCHEMA = "multitree.topology.v1"
_KEYS = ("num_ranks", "num_switches", "links")
_LINK = "[src, dst, bandwidth_gbytes_per_s, latency_ns]"


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
    members = members_of(content, TOPOLOGY_SCHEMA, _KEYS, place)
    num_ranks = integer(f"{prefix}num_ranks", members["num_ranks"], 2, MAX_RANKS)
    num_switches = integer(f"{prefix}num_switches", members["num_switches"], 0, MAX_RANKS)
    columns = _links(f"{prefix}links", members["links"], num_ranks + num_switches)
    return Topology(name, num_ranks, num_switches, *columns)


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
    columns = (topology.links, topology.bandwidth_gbytes_per_s, topology.latency_ns)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    lines = [f"    {json.dumps([*ends, *figures])}" for ends, *figures in rows]
    head = [f'  "schema": "{TOPOLOGY_SCHEMA}"', f'  "num_ranks": {topology.num_ranks}']
    head += [f'  "num_switches": {topology.num_switches}', '  "links": [']
    text = "{\n" + ",\n".join(head) + "\n" + ",\n".join(lines) + "\n  ]\n}"
    return text.replace("\n", f"\n{indent}")


def _links(place: str, rows: Any, num_nodes: int) -> tuple[Int32Array, Float64Array, Float64Array]:
    if type(rows) is not list:
        raise ContentError(f"{place} must be a list, not {shown(rows)}")
    if len(rows) > MAX_LINKS:
        raise ContentError(f"{place} must be at most {MAX_LINKS}, not {len(rows)}")
    for index, row in enumerate(rows):
        if type(row) is not list or len(row) != 4:
            raise ContentError(f"{place}[{index}] must be {_LINK}, not {shown(row)}")
    src, dst, bandwidth, latency = zip(*rows, strict=True) if rows else ((), (), (), ())
    integers(src, 0, num_nodes - 1, lambda index: f"{place}[{index}][0]")
    integers(dst, 0, num_nodes - 1, lambda index: f"{place}[{index}][1]")
    positives(bandwidth, lambda index: f"{place}[{index}][2]")
    positives(latency, lambda index: f"{place}[{index}][3]")
    links = int32s("Links", [src, dst]).T
    return links, np.array(bandwidth, np.float64), np.array(latency, np.float64)
