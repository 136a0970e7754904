"""Proof that a schedule does what it says, and for how long it can run at most."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, largest_group, rows_of_entries
from multitree.topology.checks.proofs import (
    check_flow_offsets,
    check_order,
    check_phases,
    check_routes,
    check_sorted,
    check_switches,
    check_trees,
)
from multitree.topology.collectives import OPS_OF, Op, check_roots
from multitree.topology.errors import ScheduleError, check_type, report
from multitree.topology.networks.bounds import bound_steps, link_occupancy
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "Report",
    "check_schedule",
    "is_causal",
    "links_overlap",
    "overlaps",
    "termination_cycles",
    "verify",
]


def is_causal(schedule: Schedule, slots: Int64Array | None = None) -> bool:
    """Whether nothing is sent before it has come, a chunk taking `slots` steps for each hop.

    By default that is the `link_occupancy` of the hop's link. Interfaces wait for what is missing,
    so a schedule that is not causal is late, not wrong; one on equally fast links always is.
    """
    if slots is None:
        slots = link_occupancy(schedule.topology)[schedule.route_links]
    done = schedule.step.astype(np.int64)
    done += np.maximum.reduceat(slots, schedule.route_offsets[:-1])
    num_ranks = schedule.topology.num_ranks
    reduces = schedule.op == Op.REDUCE
    leaves, enters = (
        schedule.flow.astype(np.int64) * num_ranks + ends for ends in (schedule.src, schedule.dst)
    )
    summed, got = (np.zeros(schedule.num_flows * num_ranks, np.int64) for _ in range(2))
    # Several contributions may enter one sum, but a result comes once: `check_trees` proves it.
    np.maximum.at(summed, enters[reduces], done[reduces])
    got[enters[~reduces]] = done[~reduces]
    # A root has the result when it has the sum; no other rank waits for sums to pass a result on.
    roots = np.arange(schedule.num_flows) * num_ranks + schedule.flow_roots
    got[roots] = summed[roots]
    ready = np.where(reduces, summed[leaves], got[leaves])
    return bool((schedule.step >= ready).all())


def overlaps(places: Int32Array, step: Int32Array, slots: Int64Array) -> bool:
    """Whether a place is taken again before it is free: for `slots` steps from each `step` on."""
    # Neighbours suffice: what overlaps a later holder of a place overlaps the next one, too.
    by_place = np.lexsort((step, places))
    place, begins = places[by_place], step[by_place]
    ends = begins + slots[by_place]
    return bool(((place[1:] == place[:-1]) & (begins[1:] < ends[:-1])).any())


def links_overlap(
    schedule: Schedule, places: Int32Array | None = None, slots: Int64Array | None = None
) -> bool:
    """Whether a link is taken again before a chunk has left it, by any wave.

    Hops may take `places` in the links' stead, and hold each for `slots` steps.
    """
    places = schedule.route_links if places is None else places
    steps = schedule.step[rows_of_entries(schedule.route_offsets)]
    if slots is None:
        slots = link_occupancy(schedule.topology)[schedule.route_links]
    if schedule.num_waves == 1:
        return overlaps(places, steps, slots)
    # All periods are alike: what is held beyond the end of one is held at the start of the next.
    entry = rows_of_entries(np.r_[0, np.cumsum(slots)])
    later = np.arange(len(entry)) - (np.cumsum(slots) - slots)[entry]
    place = places[entry].astype(np.int64) * schedule.period
    return largest_group(place + (steps[entry] + later) % schedule.period) > 1


@dataclass(frozen=True)
class Report:
    """What `verify` measured of a schedule that it accepted."""

    contention_free: bool  # no link carries two transfers at once, `link_occupancy` steps each
    causal: bool  # nothing is sent in a step before it has come, slow links considered
    max_link_load: int  # transfers on one link in one step, of all waves
    num_messages: int
    max_messages_per_rank: int  # that one rank sends
    max_siblings: int  # contributions to one sum that one rank gets in one step
    num_steps: int  # of all phases together, of one wave
    bound_steps: int  # the fewest of a phase with one flow per rank on the topology
    tree_height_hops: int  # on the longest path from a root to a rank


def verify(schedule: Schedule) -> Report:
    """Prove that a schedule is right, or say which row is wrong.

    Proven are: entries in range, rows sorted, flows that share out the buffer, routes that
    are paths on which messages cannot wait in a circle and that switches carry out, one tree
    per flow and phase with the same root, every contribution in each sum exactly once, every
    rank served, steps in causal order (so nothing waits for itself and no chunk is written while
    it is read, in any wave, each of which has a slice of the buffer to itself), siblings in a
    definite order, and roots where the collective needs them.

    Parameters
    ----------
    schedule : Schedule

    Returns
    -------
    Report
        With the worst link load: contention is no error, since it costs time, not sense; nor are
        steps that slow links do not keep, since interfaces wait for what is missing.

    Raises
    ------
    TypeError
        If it is no Schedule.
    ScheduleError
        If one of these does not hold; the message names the row, with step, flow and ranks.
    TopologyError
        If a switch has more ports than there can be.

    Notes
    -----
    O(num_transfers log num_transfers) time and O(num_flows x num_ranks) memory. That a tree
    whose steps ascend sums each contribution exactly once is shown by induction from the
    leaves; the tests run the same schedules on sets of contributions.

    Examples
    --------
    >>> from multitree.topology.families.direct import torus
    >>> from multitree.topology.algorithms.multitree import build_multitree
    >>> report = verify(build_multitree(torus(4, 4)))
    >>> report.contention_free, report.num_messages, report.num_steps
    (True, 480, 8)
    """
    check_schedule(schedule)
    report("measuring link load, tree height and diameter")
    load = schedule.max_link_load
    return Report(
        contention_free=load <= 1 and not links_overlap(schedule),
        causal=is_causal(schedule),
        max_link_load=load,
        num_messages=schedule.num_transfers,
        max_messages_per_rank=int(np.bincount(schedule.src).max()),
        max_siblings=int(schedule.order.max()) + 1,
        num_steps=schedule.num_steps,
        bound_steps=bound_steps(schedule.topology),
        tree_height_hops=schedule.tree_height_hops,
    )


def check_schedule(schedule: Schedule, roots: Int32Array | None = None) -> None:
    """Prove what `verify` proves, and measure nothing: a TypeError or ScheduleError if it is wrong.

    Much faster on some topologies: the diameter alone takes O(diameter x links x num_ranks).
    `roots` are those of all flows, of which the schedule may hold some.
    """
    check_type("Schedule", schedule, Schedule)
    # The order matters: phases and roots are read off trees that are proved before.
    proofs: list[Callable[[Schedule], None]] = [_check_ops, check_sorted, check_flow_offsets]
    proofs += [check_routes, check_switches]
    proofs += [partial(check_trees, op=op) for op in OPS_OF[schedule.collective]]
    proofs += [check_phases] if schedule.collective == "all_reduce" else []
    proofs += [check_order, partial(_check_places_of_roots, roots=roots)]
    for number, prove in enumerate(proofs):
        report(f"verifying {schedule.num_transfers:,} transfers, proofs done", number, len(proofs))
        prove(schedule)


def _check_places_of_roots(schedule: Schedule, roots: Int32Array | None) -> None:
    asked = schedule.collective, schedule.flow_roots, schedule.root, schedule.topology.num_ranks
    if roots is not None:
        check_roots(asked[0], roots, *asked[2:])
        return

    def row_at_root(flow: int) -> str:
        at_root = np.isin([schedule.src, schedule.dst], schedule.flow_roots[flow]).any(axis=0)
        return schedule.describe(int(np.flatnonzero(at_root & (schedule.flow == flow))[0]))

    check_roots(*asked, describe=row_at_root)


def _check_ops(schedule: Schedule) -> None:
    allowed = OPS_OF[schedule.collective]
    wrong = np.flatnonzero(~np.isin(schedule.op, allowed))
    if wrong.size:
        row = int(wrong[0])
        names = " or ".join(op.name for op in allowed)
        raise ScheduleError(
            f"{schedule.describe(row)}: op of {schedule.collective} must be {names}, "
            f"not {Op(int(schedule.op[row])).name}"
        )


def termination_cycles(
    schedule: Schedule,
    *,
    num_flits: int,  # of one rank's buffer
    latency_cycles: int,  # of the slowest link
    overhead_cycles: int,  # of a message at most: table, memory, adder, acknowledgement
    max_skew_cycles: int = 0,  # from the first rank's start to the last one's
    cycles_per_flit: int = 1,  # of the slowest link, or of one whose credits return late
) -> int:
    """Cycles within which a schedule is done, from the first rank's start, if nothing fails.

    By induction over the steps: once all earlier steps are done, a transfer waits for what its link
    sends before it and for siblings before it. So a step takes no longer than that many of the
    longest messages and the latency of the route; where routes of several links meet, than all
    messages of the step.
    """
    given = {
        "Number of flits": num_flits,
        "Latency": latency_cycles,
        "Overhead": overhead_cycles,
        "Skew": max_skew_cycles,
        "Cycles per flit": cycles_per_flit,
    }
    for name, value in given.items():
        if value < 0:
            raise ValueError(f"{name} must be at least 0, not {value!r}")
    return max_skew_cycles + _all_steps(schedule) * _step_cycles(
        schedule, num_flits, latency_cycles, overhead_cycles, cycles_per_flit
    )


def _all_steps(schedule: Schedule) -> int:
    return schedule.num_steps + (schedule.num_waves - 1) * schedule.period


def _step_cycles(
    schedule: Schedule,
    num_flits: int,
    latency_cycles: int,
    overhead_cycles: int,
    cycles_per_flit: int,
) -> int:
    longest_message = 1 + int(np.diff(schedule.chunks(num_flits)).max())
    in_a_row = schedule.max_link_load + int(schedule.order.max(initial=0))
    num_hops = int(np.diff(schedule.route_offsets).max(initial=0))
    per_message = longest_message * cycles_per_flit + overhead_cycles
    per_step = in_a_row * per_message + num_hops * latency_cycles
    if schedule.max_link_load > 1 and num_hops > 1:
        # One message may wait for the next link of its route while another waits for its first:
        # at worst, as such waits have no circle, all of a step go one after the other.
        step = schedule.step if schedule.num_waves == 1 else schedule.step % schedule.period
        per_step = int(np.bincount(step).max()) * (per_message + num_hops * latency_cycles)
    return per_step
