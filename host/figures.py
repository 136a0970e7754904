"""Figures of merit of one run, beside the bound that no schedule can beat."""

from dataclasses import dataclass

import numpy as np

from multitree.sim.link_model import LinkModel
from multitree.topology.bounds import bound_cycles
from multitree.topology.schedule import Schedule
from multitree.topology.topology import Topology

__all__ = ["Figures", "bound_of"]


def bound_of(topology: Topology, size_bytes: int, link_model: LinkModel) -> float:
    """Cycles that no all-reduce of a buffer can beat on a topology.

    Parameters
    ----------
    topology : Topology
    size_bytes : int
        Bytes of one rank's buffer.
    link_model : LinkModel
        Clock and flits.

    Returns
    -------
    float
    """
    return bound_cycles(
        topology,
        link_model.num_flits(size_bytes, 1),
        latency_cycles=link_model.latency_cycles(topology).astype(np.float64),
        flits_per_cycle=1.0 / link_model.cycles_per_flit(topology),
    )


@dataclass(frozen=True)
class Figures:
    """What a run's cycles come to; all None for an engine without a clock.

    Parameters
    ----------
    cycles : int or None
        From the first rank's start to the last rank's done, table load excluded.
    time_us : float or None
        `cycles` at the link model's clock.
    bandwidth_gbytes_per_s : float or None
        Bytes of one rank's buffer, without padding, over `time_us`.
    bound_cycles : float or None
        Cycles that no all-reduce on this topology can beat; None for other collectives.
    ratio_to_bound : float or None
        `cycles` over `bound_cycles`.
    link_utilization : float or None
        Payload flits over links x cycles.
    """

    cycles: int | None = None
    time_us: float | None = None
    bandwidth_gbytes_per_s: float | None = None
    bound_cycles: float | None = None
    ratio_to_bound: float | None = None
    link_utilization: float | None = None

    @classmethod
    def of(
        cls,
        schedule: Schedule,
        size_bytes: int,
        link_model: LinkModel,
        *,
        cycles: int | None,
        link_utilization: float | None,
    ) -> "Figures":
        """Derive the figures from cycles and link utilisation.

        Parameters
        ----------
        schedule : Schedule
            What ran.
        size_bytes : int
            Bytes of one rank's buffer.
        link_model : LinkModel
            Clock and flits.
        cycles : int or None
            What an engine counted; without it all is None.
        link_utilization : float or None
            What an engine counted.

        Returns
        -------
        Figures
        """
        if cycles is None:
            return cls()
        time_us = link_model.microseconds(cycles)
        bound = None
        if schedule.collective == "all_reduce":
            bound = bound_of(schedule.topology, size_bytes, link_model)
        return cls(
            cycles=cycles,
            time_us=time_us,
            bandwidth_gbytes_per_s=size_bytes / time_us / 1000 if time_us else None,
            bound_cycles=bound,
            ratio_to_bound=cycles / bound if bound else None,
            link_utilization=link_utilization,
        )
