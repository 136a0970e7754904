"""A periodic schedule written out, with a flow for each tree and wave."""

from dataclasses import replace
from typing import Any

import numpy as np

from multitree.topology.routing.routes import reordered_routes
from multitree.topology.schedules.columns import ROW_FIELDS
from multitree.topology.schedules.schedule import Schedule


def unrolled(schedule: Schedule, *, period: int | None = None) -> Schedule:
    """The ordinary schedule that does what a periodic one does in all its waves.

    Wave w's flow f becomes flow w F + f of F num_waves, and its rows go at step + w * period.

    Parameters
    ----------
    schedule : Schedule
    period : int, optional
        In place of its own. With 0 all waves have the same steps: as many groups of transfers that
        can be done at once as one wave has, for who does not care about links.

    Returns
    -------
    Schedule
        Itself, where it has one wave. On buffers that need no padding the same elements are added
        in the same order, so that the bits are the same.

    Notes
    -----
    O(num_waves x num_transfers): the long way to say it, for small buffers and for tests.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from multitree.topology.families.direct import ring
    >>> from multitree.topology.algorithms.multitree import build_multitree
    >>> waves = replace(build_multitree(ring(3)), num_waves=4, period=2)
    >>> unrolled(waves).num_flows, unrolled(waves).num_steps
    (12, 8)
    """
    num_waves, num_flows = schedule.num_waves, schedule.num_flows
    if num_waves == 1:
        return schedule
    wave = np.repeat(np.arange(num_waves), schedule.num_transfers)
    columns: dict[str, Any] = {
        field: np.tile(getattr(schedule, field), num_waves) for field in ROW_FIELDS
    }
    columns["step"] += (wave * (schedule.period if period is None else period)).astype(np.int32)
    columns["flow"] += (wave * num_flows).astype(np.int32)
    by_step = np.lexsort([columns[field] for field in ("dst", "src", "flow", "step")])
    whole = schedule.flow_offsets[-1]
    offsets = np.add.outer(whole * np.arange(num_waves), schedule.flow_offsets[:-1]).ravel()
    lengths = np.tile(np.diff(schedule.route_offsets), num_waves)
    links, classes = (
        np.tile(hops, num_waves) for hops in (schedule.route_links, schedule.route_classes)
    )
    routes = reordered_routes((np.r_[0, np.cumsum(lengths)], links, classes), by_step)
    changed = {field: columns[field][by_step] for field in ROW_FIELDS}
    changed |= zip(("route_offsets", "route_links", "route_classes"), routes, strict=True)
    return replace(
        schedule,
        flow_offsets=np.r_[offsets, whole * num_waves],
        **changed,
        num_waves=1,
        period=1,
    )
