"""What users of MultiTree import."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from multitree.host.communicator import Communicator
    from multitree.host.engines import EngineError
    from multitree.host.evaluation.point import SweepError
    from multitree.host.evaluation.sweep import SweepResult, SweepStatus, run_sweep
    from multitree.host.report import WorkReport
    from multitree.host.work import Work
    from multitree.nic.driver.faults import DeviceError
    from multitree.sim.estimate import Estimate, estimate
    from multitree.sim.exact.engine import exact
    from multitree.sim.jobs.iteration import JobTime, time_job
    from multitree.sim.jobs.job import Collective, Job, JobError, Layer, Stage
    from multitree.sim.jobs.read import load_job
    from multitree.sim.jobs.systolic_arrays import SystolicArrays
    from multitree.sim.timing.link_model import LinkModel
    from multitree.sim.timing.trace import Trace
    from multitree.topology.algorithms.build import build
    from multitree.topology.algorithms.symmetric import implicit_symmetric
    from multitree.topology.checks.implicit import ImplicitSchedule, verify_implicit
    from multitree.topology.checks.verify import verify
    from multitree.topology.errors import ScheduleError, TopologyError, TopologyWarning
    from multitree.topology.families.clusters import dgx_a100, dragonfly
    from multitree.topology.families.direct import fully_connected, hypercube, mesh, ring, torus
    from multitree.topology.families.switched import bigraph, dgx2, fat_tree, kary_tree
    from multitree.topology.files.load_save import (
        load_schedule,
        load_topology,
        save_schedule,
        save_topology,
    )
    from multitree.topology.networks.subsets import among
    from multitree.topology.networks.topology import Topology
    from multitree.topology.schedules.execute import execute
    from multitree.topology.schedules.schedule import Schedule
    from multitree.topology.specs import parse_topology

__all__ = [
    "Collective",
    "Communicator",
    "DeviceError",
    "EngineError",
    "Estimate",
    "ImplicitSchedule",
    "Job",
    "JobError",
    "JobTime",
    "Layer",
    "LinkModel",
    "Schedule",
    "ScheduleError",
    "Stage",
    "SweepError",
    "SweepResult",
    "SweepStatus",
    "SystolicArrays",
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
    "exact",
    "execute",
    "fat_tree",
    "fully_connected",
    "hypercube",
    "implicit_symmetric",
    "kary_tree",
    "load_job",
    "load_schedule",
    "load_topology",
    "mesh",
    "parse_topology",
    "ring",
    "run_sweep",
    "save_schedule",
    "save_topology",
    "time_job",
    "torus",
    "verify",
    "verify_implicit",
]

_HOMES = {
    "host.communicator": ("Communicator",),
    "host.engines": ("EngineError",),
    "host.evaluation.point": ("SweepError",),
    "host.evaluation.sweep": (
        "SweepResult",
        "SweepStatus",
        "run_sweep",
    ),
    "host.report": ("WorkReport",),
    "host.work": ("Work",),
    "nic.driver.faults": ("DeviceError",),
    "sim.estimate": (
        "Estimate",
        "estimate",
    ),
    "sim.exact.engine": ("exact",),
    "sim.jobs.iteration": (
        "JobTime",
        "time_job",
    ),
    "sim.jobs.job": (
        "Collective",
        "Job",
        "JobError",
        "Layer",
        "Stage",
    ),
    "sim.jobs.read": ("load_job",),
    "sim.jobs.systolic_arrays": ("SystolicArrays",),
    "sim.timing.link_model": ("LinkModel",),
    "sim.timing.trace": ("Trace",),
    "topology.algorithms.build": ("build",),
    "topology.algorithms.symmetric": ("implicit_symmetric",),
    "topology.checks.implicit": (
        "ImplicitSchedule",
        "verify_implicit",
    ),
    "topology.checks.verify": ("verify",),
    "topology.errors": (
        "ScheduleError",
        "TopologyError",
        "TopologyWarning",
    ),
    "topology.families.clusters": (
        "dgx_a100",
        "dragonfly",
    ),
    "topology.families.direct": (
        "fully_connected",
        "hypercube",
        "mesh",
        "ring",
        "torus",
    ),
    "topology.families.switched": (
        "bigraph",
        "dgx2",
        "fat_tree",
        "kary_tree",
    ),
    "topology.files.load_save": (
        "load_schedule",
        "load_topology",
        "save_schedule",
        "save_topology",
    ),
    "topology.networks.subsets": ("among",),
    "topology.networks.topology": ("Topology",),
    "topology.schedules.execute": ("execute",),
    "topology.schedules.schedule": ("Schedule",),
    "topology.specs": ("parse_topology",),
}
_HOME_OF = {name: f"multitree.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name from its room at first use, so that no more is loaded than is needed."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("multitree")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    """Names behind the door."""
    return ["__version__", *__all__]
