"""Topologies and schedules as files, JSON or GraphML."""

from pathlib import Path
from typing import Any

from multitree.topology.checks.verify import check_schedule
from multitree.topology.errors import ScheduleError, TopologyError, check_type
from multitree.topology.file_text import label, naming, read_text, write_text
from multitree.topology.files.graphml_format import (
    schedule_graphml,
    schedule_of_graph,
    topology_graphml,
    topology_of_graph,
)
from multitree.topology.files.graphml_reader import Graph, parse_graphml
from multitree.topology.files.json_format import (
    SCHEDULE_SCHEMA,
    parse_json,
    schedule_json,
    schedule_of_json,
    schema_of,
    topology_json,
    topology_of_json,
)
from multitree.topology.files.schedule_rows import MAX_LABEL
from multitree.topology.networks.attributes import NO_KEYS, LinkKeys
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule


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
    The file need not be trusted: its size has a limit, and time and memory are linear in that.
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
    TypeError
        If it is no Topology.
    TopologyError
        If the file cannot be written, or would be too large to be read.
    """
    check_type("Topology", topology, Topology)
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


def load_schedule(path: str | Path) -> Schedule:
    """Read a schedule from a file, its topology with it, and verify it.

    GraphML if the file's name ends in .graphml, else JSON; docs/files.md tells of both. The
    topology is called by the file's name.

    Parameters
    ----------
    path : str or pathlib.Path

    Returns
    -------
    Schedule
        One that `verify` accepts.

    Raises
    ------
    ScheduleError
        If the file cannot be read, is too large, is not JSON or GraphML, or describes no
        schedule that is right; the message has the file's name, and the place in it or the row.

    Notes
    -----
    The file need not be trusted: its size has a limit, memory is linear in that and time but
    for a logarithm.
    """
    name = str(path)
    with naming(name, ScheduleError):
        return _schedule_of(read_content(name), name)


def save_schedule(schedule: Schedule, path: str | Path) -> None:
    """Write a schedule, its topology with it, to a file that `load_schedule` reads.

    Parameters
    ----------
    schedule : Schedule
    path : str or pathlib.Path
        GraphML if its name ends in .graphml, else JSON.

    Raises
    ------
    TypeError
        If it is no Schedule.
    ScheduleError
        If `verify` does not accept the schedule, its algorithm's name cannot be printed, or the
        file cannot be written or would be too large to be read.
    """
    check_type("Schedule", schedule, Schedule)
    name = str(path)
    with naming(name, ScheduleError):
        label("algorithm", schedule.algorithm, MAX_LABEL)
        # Proved before it is written: reading would refuse what is not right.
        check_schedule(schedule)
        as_graphml = is_graphml(name)
        write_text(name, schedule_graphml(schedule) if as_graphml else schedule_json(schedule))


def load_file(
    path: str | Path, *, bandwidth_key: str | None = None, latency_key: str | None = None
) -> Topology | Schedule:
    """Read a file that holds either, as its schema says.

    Parameters
    ----------
    path : str or pathlib.Path
    bandwidth_key, latency_key : str, optional
        Of a topology, as for `load_topology`.

    Returns
    -------
    Topology or Schedule

    Raises
    ------
    TopologyError
        As `load_topology`, if the file does not say that it holds a schedule.
    ScheduleError
        As `load_schedule`, if it does.
    """
    name = str(path)
    with naming(name, TopologyError):
        keys, content = LinkKeys.of(bandwidth_key, latency_key), read_content(name)
        if _schema_of(content) != SCHEDULE_SCHEMA:
            return topology_of(content, name, keys)
        if keys != NO_KEYS:
            raise TopologyError("keys of speed or latency must be of a topology, not of a schedule")
    with naming(name, ScheduleError):
        return _schedule_of(content, name)


def _schema_of(content: Any) -> Any:
    if isinstance(content, Graph):
        return content.head.text("schema") if content.head.has("schema") else None
    return schema_of(content)


def _schedule_of(content: Any, path: str) -> Schedule:
    understand = schedule_of_graph if isinstance(content, Graph) else schedule_of_json
    schedule = understand(content, Path(path).name)
    check_schedule(schedule)
    return schedule
