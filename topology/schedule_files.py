"""Schedules as files, JSON or GraphML, verified whenever they are read or written."""

from pathlib import Path
from typing import Any

from multitree.topology.attributes import NO_KEYS, LinkKeys
from multitree.topology.entries import label
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.file_text import naming, write_text
from multitree.topology.files import is_graphml, read_content, topology_of
from multitree.topology.graphml import Graph
from multitree.topology.graphml_schedule import schedule_graphml, schedule_of_graph
from multitree.topology.json_schedule import SCHEDULE_SCHEMA, schedule_json, schedule_of_json
from multitree.topology.json_text import schema_of
from multitree.topology.schedule import Schedule
from multitree.topology.schedule_rows import MAX_LABEL
from multitree.topology.topology import Topology
from multitree.topology.verify import check_schedule


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
    Nobody need vouch for the file: its size has a limit, memory is linear in that and time but
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
    ScheduleError
        If `verify` does not accept the schedule, its algorithm's name cannot be printed, or the
        file cannot be written or would be too large to be read.
    """
    name = str(path)
    with naming(name, ScheduleError):
        label("algorithm", schedule.algorithm, MAX_LABEL)
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
