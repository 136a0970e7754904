"""Topologies as files, JSON or GraphML."""

from pathlib import Path
from typing import Any

from multitree.topology.attributes import NO_KEYS, LinkKeys
from multitree.topology.errors import TopologyError
from multitree.topology.file_text import naming, read_text, write_text
from multitree.topology.graphml import Graph
from multitree.topology.graphml_reader import parse_graphml
from multitree.topology.graphml_topology import topology_graphml, topology_of_graph
from multitree.topology.json_text import parse_json
from multitree.topology.json_topology import topology_json, topology_of_json
from multitree.topology.topology import Topology


def load_topology(
    path: str | Path, *, bandwidth_key: str | None = None, latency_key: str | None = None
) -> Topology:
    """Read a topology from a file: GraphML if its name ends in .graphml, else JSON.

    The JSON file is one object with the keys ``schema`` ("multitree.topology.v1"),
    ``num_ranks``, ``num_switches`` and ``links``, a list of ``[src, dst,
    bandwidth_gbytes_per_s, latency_ns]``. The GraphML file is a graph as
    `Topology.to_networkx` gives it; docs/files.md tells more of both. The topology is called by
    the file's name.

    Parameters
    ----------
    path : str or pathlib.Path
    bandwidth_key, latency_key : str, optional
        In GraphML, data of edges that tell speed and latency in the place of
        ``bandwidth_gbytes_per_s`` and ``latency_ns``: NAME:UNIT, such as "capacity:Gb/s".

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If the file cannot be read, is too large, is not JSON or GraphML, or describes no
        topology; the message has the file's name and the place in it. If data of edges may be
        their speed or latency by another name.

    Notes
    -----
    Nobody need vouch for the file: its size has a limit, and time and memory are linear in that.
    """
    name = str(path)
    with naming(name, TopologyError):
        keys = LinkKeys.of(bandwidth_key, latency_key)
        return topology_of(read_content(name), name, keys)


def save_topology(topology: Topology, path: str | Path) -> None:
    """Write a topology to a file that `load_topology` reads, one link per line.

    Parameters
    ----------
    topology : Topology
    path : str or pathlib.Path
        GraphML if its name ends in .graphml, else JSON.

    Raises
    ------
    TopologyError
        If the file cannot be written, or would be too large to be read.
    """
    name = str(path)
    with naming(name, TopologyError):
        as_graphml = is_graphml(name)
        write_text(name, topology_graphml(topology) if as_graphml else topology_json(topology))


def is_graphml(path: str) -> bool:
    """Whether a file of this name holds GraphML; all others hold JSON.

    Parameters
    ----------
    path : str

    Returns
    -------
    bool
    """
    return path.lower().endswith(".graphml")


def read_content(path: str) -> Any:
    """What a file holds, not yet understood.

    Parameters
    ----------
    path : str

    Returns
    -------
    Graph or object
        The latter is JSON, as `parse_json` has it.

    Raises
    ------
    ContentError
        If it cannot be read, or is no GraphML or JSON.
    """
    text = read_text(path)
    return parse_graphml(text) if is_graphml(path) else parse_json(text)


def topology_of(content: Any, path: str, keys: LinkKeys = NO_KEYS) -> Topology:
    """Understand the content of a file as a topology.

    Parameters
    ----------
    content : Graph or object
        From `read_content`.
    path : str
    keys : LinkKeys
        Data of a graph's edges that tell speed and latency.

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
    if isinstance(content, Graph):
        return topology_of_graph(content, Path(path).name, keys)
    if keys != NO_KEYS:
        raise TopologyError("keys of speed or latency must come with GraphML, not with JSON")
    return topology_of_json(content, Path(path).name)
