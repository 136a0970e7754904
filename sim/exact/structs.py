"""Constants and structs of both C++ and Python, and the header that has them."""

from typing import Any

import numpy as np

from multitree.hw.codes import (
    AHEAD_FLITS,
    FETCHED_ROWS,
    FOUND_CHUNKS,
    LATE_MESSAGES,
    QUEUED_HEADS,
    QUEUED_JOBS,
    QUEUED_WRITES,
    STALE_FLITS,
    Kind,
)
from multitree.nic.driver.config import JOB_QUEUE_DEPTH, LIMITS
from multitree.sim.timing.pipelines import Pipelines

__all__ = ["HEADER", "HOP", "LINK", "NONE", "PARAMETERS", "ROW", "TRANSFER", "header"]

NONE = -1
"""A transfer that does not exist."""
CONSTANTS = {
    "NONE": NONE,
    "MOST_PORTS": LIMITS["num_ports"][1],
    "LAUNCH_CYCLES": Pipelines.launch_cycles,
    "DONE_CYCLES": Pipelines.done_cycles,
    "JOB_QUEUE_DEPTH": JOB_QUEUE_DEPTH,
    "AHEAD_FLITS": AHEAD_FLITS,
    "FETCHED_ROWS": FETCHED_ROWS,
    "FOUND_CHUNKS": FOUND_CHUNKS,
    "LATE_MESSAGES": LATE_MESSAGES,
    "QUEUED_HEADS": QUEUED_HEADS,
    "QUEUED_JOBS": QUEUED_JOBS,
    "QUEUED_WRITES": QUEUED_WRITES,
    "STALE_FLITS": STALE_FLITS,
}


def _struct(kind: str, *names: str) -> np.dtype[Any]:
    return np.dtype([(name, kind) for name in names])


# Sizes and times of a network.
PARAMETERS = _struct(
    "<i8",
    *("num_ranks", "num_switches", "num_links", "num_transfers"),
    *("num_ports", "num_switch_ports", "num_vcs"),
    *("num_waves", "repeats", "part_width"),
    *("submessage_flits", "buffer_flits", "memory_queue_flits", "forward_flits"),
    *("read_cycles", "write_cycles", "add_cycles"),
    *("cut_through", "packets", "lockstep", "step_cycles"),
)
# A row of a rank's table; its transfer is NONE where it sends nothing.
ROW = _struct("<i4", "transfer", "port", "step", "stage")
# A row of the schedule, as both its ends see it: payload flits; the transfer that has to be in
# before it leaves, and the one that is added or replaced before it, or NONE; if it is a GATHER.
# Where links are shared: its place in its sum, the last contribution to that (of a GATHER itself),
# its step, the class of its first channel, and where its hops begin.
TRANSFER = _struct(
    "<i4",
    *("size", "need", "before", "dst_port", "replaces"),
    *("order", "last", "step", "vc_class", "hops"),
)
# A switch on a message's route: the port that it leaves by, and the class of that link.
HOP = _struct("<i4", "port", "vc_class")
# A link, between ranks, and switches behind these; its interval is that of a flit, in 1/65536
# cycles.
LINK = _struct("<i8", "src", "src_port", "dst", "dst_port", "latency", "credit_latency", "interval")

HEADER = "structs.h"
_STRUCTS = {"Parameters": PARAMETERS, "Row": ROW, "Transfer": TRANSFER, "Hop": HOP, "LinkOf": LINK}


def header() -> str:
    """Text of the C++ header `HEADER`, written when the model is compiled."""
    kinds = ", ".join(f"{kind.name} = {int(kind)}" for kind in list(Kind)[: Kind.DOWN])
    lines = ["#pragma once", "#include <cstdint>", "namespace exact {"]
    lines.append(f"enum Kind : uint8_t {{ {kinds} }};")
    for name, value in CONSTANTS.items():
        lines.append(f"constexpr {'int32_t' if value < 0 else 'uint32_t'} {name} = {value};")
    for name, struct in _STRUCTS.items():
        bits = 8 * struct[0].itemsize
        lines.append(f"struct {name} {{ int{bits}_t {', '.join(struct.names or ())}; }};")
    return "\n".join([*lines, "}", ""])
