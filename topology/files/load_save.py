"""Topologies and schedules as files: both as JSON, topologies as GraphML, too."""

from pathlib import Path

from multitree.topology.checks.verify import check_schedule
from multitree.topology.errors import ContentError, ScheduleError, TopologyError, check_type, label
from multitree.topology.file_io import naming, read_text, write_text
from multitree.topology.files.json_format import (
    MAX_LABEL,
    SCHEDULE_SCHEMA,
    parse_json,
    schedule_json,
    schedule_of_json,
    schema_of,
    topology_json,
    topology_of_json,
)
from multitree.topology.networks.graphs import NO_KEYS, GraphKeys
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["load_file", "load_schedule", "load_topology", "save_schedule", "save_topology"]


def load_topology(
    path: str | Path,
    *,
    bandwidth_key: str | None = None,
    latency_key: str | None = None,
    kind_key: str | None = None,
) -> Topology:
    """Read a topology from a file: GraphML if its name ends in .graphml, else JSON.

    The JSON file is one object with the keys ``schema`` ("multitree.topology.v1"),
    ``num_ranks``, ``num_switches`` and ``links``, a list of ``[src, dst,
    bandwidth_gbytes_per_s, latency_ns]``. The GraphML file is a graph as
    `Topology.to_networkx` gives it; docs/files.md describes both. The topology is called by
    the file's name.

    Parameters
    ----------
    path : str or pathlib.Path
    bandwidth_key, latency_key : str, optional
        In GraphML, data of edges that are speed and latency in the place of
        ``bandwidth_gbytes_per_s`` and ``latency_ns``: NAME:UNIT, such as "capacity:Gb/s".
    kind_key : str, optional
        In GraphML, data of nodes that are their kind in the place of ``kind``: NAME, or
        NAME:VALUE=KIND,..., such as "role:gpu=rank,tor=switch".

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If the file cannot be read, is too large, is not JSON or GraphML, or describes no
        topology; the message has the file's name and the place in it. If data may be a speed, a
        latency or a kind by another name.

    Notes
    -----
    The file need not be trusted: its size has a limit, and time and memory are linear in that.
    """
    name = str(path)
    with naming(name, TopologyError):
        keys = GraphKeys.of(bandwidth_key, latency_key, kind_key)
        text = read_text(name)
        if _is_graphml(name):
            from multitree.topology.files.graphml import topology_of_graphml

            return topology_of_graphml(text, Path(name).name, keys)
        _check_no_keys(keys)
        return topology_of_json(parse_json(text), Path(name).name)


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
        if not _is_graphml(name):
            write_text(name, topology_json(topology))
            return
        from multitree.topology.files.graphml import topology_graphml

        write_text(name, topology_graphml(topology))


def load_schedule(path: str | Path) -> Schedule:
    """Read a schedule from a JSON file, its topology with it, and verify it.

    docs/files.md describes the file. The topology is called by the file's name.

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
        If the file cannot be read, is too large, is not JSON, or describes no schedule that is
        right; the message has the file's name, and the place in it or the row.

    Notes
    -----
    The file need not be trusted: its size has a limit, memory is linear in that and time but
    for a logarithm.
    """
    name = str(path)
    with naming(name, ScheduleError):
        _check_json(name)
        return _schedule_of(parse_json(read_text(name)), name)


def save_schedule(schedule: Schedule, path: str | Path) -> None:
    """Write a schedule, its topology with it, to a JSON file that `load_schedule` reads.

    Parameters
    ----------
    schedule : Schedule
    path : str or pathlib.Path

    Raises
    ------
    TypeError
        If it is no Schedule.
    ScheduleError
        If `verify` does not accept the schedule, its algorithm's name cannot be printed, or the
        file cannot be written, would be too large to be read, or is called .graphml.
    """
    check_type("Schedule", schedule, Schedule)
    name = str(path)
    with naming(name, ScheduleError):
        _check_json(name)
        label("algorithm", schedule.algorithm, MAX_LABEL)
        # Proved before it is written: reading would refuse what is not right.
        check_schedule(schedule)
        write_text(name, schedule_json(schedule))


def load_file(path: str | Path, **given: str | None) -> Topology | Schedule:
    """Read a file that holds either, as its schema says; keys are those of `load_topology`.

    A ScheduleError is raised, as by `load_schedule`, where the file says that it is a schedule,
    else a TopologyError as by `load_topology`.
    """
    name = str(path)
    if _is_graphml(name):
        return load_topology(name, **given)
    with naming(name, TopologyError):
        keys, content = GraphKeys.of(**given), parse_json(read_text(name))
        if schema_of(content) != SCHEDULE_SCHEMA:
            _check_no_keys(keys)
            return topology_of_json(content, Path(name).name)
        if keys != NO_KEYS:
            raise TopologyError("keys must be of a topology, not of a schedule")
    with naming(name, ScheduleError):
        return _schedule_of(content, name)


def _is_graphml(path: str) -> bool:
    return path.lower().endswith(".graphml")


def _check_json(path: str) -> None:
    if _is_graphml(path):
        raise ContentError("schedule must be in a JSON file, not in GraphML")


def _check_no_keys(keys: GraphKeys) -> None:
    if keys != NO_KEYS:
        raise TopologyError("keys must come with GraphML, not with JSON")


def _schedule_of(content: object, path: str) -> Schedule:
    schedule = schedule_of_json(content, Path(path).name)
    check_schedule(schedule)
    return schedule
