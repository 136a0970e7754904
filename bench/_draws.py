"""Runs that campaigns draw from a seed, whatever they are run on."""

from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from multitree.host.runner import make_buffers
from multitree.nic.driver.config import Config
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import config_for
from multitree.topology.lowering import lowered
from multitree.topology.networks.topology import Topology

__all__ = ["Draw"]

Buffers = npt.NDArray[Any]


@dataclass(frozen=True)
class Draw:
    """What a run does: collectives, link buffers, memory, starts, and the seed of its data."""

    seed: int
    spec: str  # the network, as the campaign's table has it
    queue: list[Upcoming]  # one after the other, all on one network
    timing: MemoryTiming
    skews: list[int]  # cycles until each rank starts
    buffer_flits: int | None = None  # of each link
    sizes: dict[str, int] = field(default_factory=dict)  # of the interfaces, as for `RtlSession`

    @property
    def topology(self) -> Topology:
        return self.queue[0].schedule.topology

    @property
    def model(self) -> LinkModel:
        return LinkModel(buffer_flits=self.buffer_flits)

    @property
    def config(self) -> Config:
        wired = lowered(self.queue[0].schedule).topology
        return config_for(wired, self.model, **self.sizes)

    @property
    def buffers(self) -> list[Buffers]:
        """What all ranks have, for each collective."""
        return [
            make_buffers(
                self.seed * len(self.queue) + k, len(self.skews), each.num_elements, each.dtype
            )
            for k, each in enumerate(self.queue)
        ]
