"""The size of schedule tables over the number of ranks."""

import numpy as np

from multitree.host.figures.figure import Axis, Figure, Request, RunPoints, Value
from multitree.host.figures.scaling import TORI
from multitree.host.figures.schemes import MULTITREE, schedule_of
from multitree.nic.config import FLOW_ENTRY, SHARED_FLOW, row_layout
from multitree.sim.link_model import LinkModel
from multitree.sim.sizing import config_for, least_sizes
from multitree.topology.lowering import as_sent
from multitree.topology.specs import parse_topology

__all__ = ["TABLE_SIZE"]

USED, BUILT, PUBLISHED = (
    "entries in use",
    "memory of the interface, two banks",
    "published: 200 bits x 2 N",
)
_PUBLISHED_BITS = 200
_FLITS = 1 << 16


def _table_size(request: Request, run: RunPoints) -> list[Value]:
    """Bytes of a rank's table: rows and flow memory."""
    values = []
    for spec in request.networks:
        ranks = parse_topology(spec).num_ranks
        for series, size_bytes in _sizes(spec, ranks).items():
            algorithm = None if series == PUBLISHED else MULTITREE.algorithm
            values.append(
                Value("", series, ranks, size_bytes, topology=spec, algorithm=algorithm)
                if size_bytes is not None
                else Value("", series, ranks, None, problem=f"{spec}: MultiTree has no schedule")
            )
    return values


def _sizes(spec: str, num_ranks: int) -> dict[str, float | None]:
    """Bytes by series; the published entries are two per rank."""
    published = _PUBLISHED_BITS / 8 * 2 * num_ranks
    schedule = schedule_of(spec, MULTITREE.algorithm)
    if schedule is None:
        return {USED: None, BUILT: None, PUBLISHED: published}
    sent = as_sent(schedule)
    config = config_for(sent.topology, LinkModel(), **least_sizes(schedule, _FLITS))
    row_bytes = row_layout(config).size // 8
    flow_bytes = (SHARED_FLOW if config.shared else FLOW_ENTRY).size // 8
    num_rows = int(np.bincount(sent.src).max())
    return {
        USED: num_rows * row_bytes + sent.num_flows * flow_bytes,
        BUILT: 2 * (config.table_depth * row_bytes + config.num_flows * flow_bytes),
        PUBLISHED: published,
    }


TABLE_SIZE = Figure(
    "table-size",
    "Schedule table of one rank, MultiTree on tori",
    "Bytes of a rank's schedule table over ranks, on tori.",
    Axis("ranks", "log2"),
    Axis("bytes", "log"),
    _table_size,
    TORI,
    engines=("analytic",),
    no_published_rule="tables have no cycles",
)
