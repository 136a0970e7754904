"""The door: what users of MultiTree import."""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from multitree.host.communicator import Communicator
    from multitree.host.engines import EngineError
    from multitree.host.work import Work, WorkReport
    from multitree.nic.faults import DeviceError
    from multitree.sim.estimate import Estimate, estimate
    from multitree.sim.link_model import LinkModel
    from multitree.sim.trace import Trace
    from multitree.topology.builders import build
    from multitree.topology.clusters import dgx_a100, dragonfly
    from multitree.topology.errors import ScheduleError, TopologyError, TopologyWarning
    from multitree.topology.execute import execute
    from multitree.topology.families import (
        fully_connected,
        hypercube,
        mesh,
        parse_topology,
        ring,
        torus,
    )
    from multitree.topology.files import load_topology, save_topology
    from multitree.topology.orbit import Orbit, verify_orbit
    from multitree.topology.schedule import Schedule
    from multitree.topology.schedule_files import load_schedule, save_schedule
    from multitree.topology.subsets import among
    from multitree.topology.switched import bigraph, dgx2, fat_tree, kary_tree
    from multitree.topology.symmetric import symmetric_orbit
    from multitree.topology.topology import Topology
    from multitree.topology.verify import verify

__all__ = [
    "Communicator",
    "DeviceError",
    "EngineError",
    "Estimate",
    "LinkModel",
    "Orbit",
    "Schedule",
    "ScheduleError",
    "Topology",
    "TopologyError",
    "TopologyWarning",
    "Trace",
    "Work",
    "WorkReport",
    "among",
    "bigraph",
    "build",
    "dgx2",
    "dgx_a100",
    "dragonfly",
    "estimate",
    "execute",
    "fat_tree",
    "fully_connected",
    "hypercube",
    "kary_tree",
    "load_schedule",
    "load_topology",
    "mesh",
    "parse_topology",
    "ring",
    "save_schedule",
    "save_topology",
    "symmetric_orbit",
    "torus",
    "verify",
    "verify_orbit",
]

_HOMES = {
    "host.communicator": ("Communicator",),
    "host.engines": ("EngineError",),
    "host.work": ("Work", "WorkReport"),
    "nic.faults": ("DeviceError",),
    "sim.estimate": ("Estimate", "estimate"),
    "sim.link_model": ("LinkModel",),
    "sim.trace": ("Trace",),
    "topology.builders": ("build",),
    "topology.clusters": ("dgx_a100", "dragonfly"),
    "topology.errors": ("ScheduleError", "TopologyError", "TopologyWarning"),
    "topology.execute": ("execute",),
    "topology.families": (
        "fully_connected",
        "hypercube",
        "mesh",
        "parse_topology",
        "ring",
        "torus",
    ),
    "topology.files": ("load_topology", "save_topology"),
    "topology.orbit": ("Orbit", "verify_orbit"),
    "topology.schedule": ("Schedule",),
    "topology.schedule_files": ("load_schedule", "save_schedule"),
    "topology.subsets": ("among",),
    "topology.switched": ("bigraph", "dgx2", "fat_tree", "kary_tree"),
    "topology.symmetric": ("symmetric_orbit",),
    "topology.topology": ("Topology",),
    "topology.verify": ("verify",),
}
_HOME_OF = {name: f"multitree.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name from its room at first use, so that no more is loaded than is needed."""
    if name == "__version__":
        return importlib.metadata.version("multitree")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    """Names behind the door."""
    return ["__version__", *__all__]
