"""What messages take, for builders that suit a schedule to a size and to links."""

from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Float64Array
from multitree.topology.networks.topology import Topology

__all__ = ["CostModel", "usual_cost_model"]

# In place of sim's LinkModel, which knows the hardware and which this package may not import.
USUAL_FLITS = 65_536
USUAL_GBYTES_PER_S = 16.0
USUAL_PIPELINE_CYCLES, USUAL_PART_FLITS, USUAL_MESSAGE_CYCLES = 26, 16, 9


class CostModel(NamedTuple):
    """The size of a buffer, and how long messages take, in cycles."""

    num_flits: int  # of one rank's buffer
    cycles_per_flit: Float64Array  # of each link
    latency_cycles: (
        Float64Array  # from a flit on a link to the first that depends on it, on the next
    )
    message_cycles: int  # of its link, beyond its flits
    part_flits: int | None  # that must be in before what depends on it begins; None: all


def usual_cost_model(topology: Topology) -> CostModel:
    """The costs of 1 MiB on interfaces with a port of 16 GB/s at 1 GHz, with cut-through."""
    cycles = np.maximum(USUAL_GBYTES_PER_S / topology.bandwidth_gbytes_per_s, 1.0)
    way = np.ceil(topology.latency_ns) + USUAL_PIPELINE_CYCLES
    return CostModel(USUAL_FLITS, cycles, way, USUAL_MESSAGE_CYCLES, USUAL_PART_FLITS)
