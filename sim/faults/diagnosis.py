"""What went wrong in a network: every interface's fault, and which came first."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from multitree.nic.driver.commands import START, Fault, HostOp, decode_fault, origin_of
from multitree.nic.driver.faults import Awaited, DeviceError, FaultCode
from multitree.nic.driver.registers import ADDRESS, register_field
from multitree.sim.emulator.network import Network
from multitree.sim.faults.in_flight import InFlight
from multitree.sim.faults.wait_graph import WaitForGraph
from multitree.sim.timing.trace import Events, counts_of, turns_of
from multitree.topology.arrays import positions_in_group
from multitree.topology.schedules.schedule import Schedule

__all__ = ["StallError", "check_responses", "check_status", "findings", "first_missing"]

IntArray = npt.NDArray[np.int64]


def findings(schedules: Sequence[Schedule], network: Network, *, stalled: bool) -> list[str]:
    """Findings at the first fault of a network, in words.

    These are the first missing message and, on shared links where a watchdog expired (`stalled`),
    the wait-for graph.
    """
    sent, arrived = network.sent(), network.arrived()
    said = [first_missing(schedules, sent, arrived)]
    if stalled and network.config.shared:
        said.append(_waits(schedules, network, sent, arrived))
    return [words for words in said if words]


def _waits(schedules: Sequence[Schedule], network: Network, sent: Events, arrived: Events) -> str:
    """Wait-for graph of shared links in words; empty if no link reported a fault."""
    stopped, crossings = network.crossings()
    if stopped is None:
        return ""
    # What is in later came since a fault had those that it blocked dropped.
    turns = turns_of(schedules, sent, arrived[arrived["cycle"] < stopped])
    ran = zip(schedules, turns, strict=True)
    is_in = [counts_of(schedule, *turn)[1] > 0 for schedule, turn in ran]
    # The first head that leaves is of the first collective: all ranks take part in it.
    first_sequence = int(sent["sequence"][0]) if len(sent) else 0
    try:
        in_flight = InFlight(schedules, network.config, crossings, first_sequence)
    except DeviceError as error:
        return str(error)
    return WaitForGraph(schedules, in_flight, is_in).sentence()


def first_missing(schedules: Sequence[Schedule], sent: Events, arrived: Events) -> str:
    """Message that a network waits for, in words; empty if nothing is missing.

    Of the first incomplete collective, that is the first message in the order of steps that was not
    sent although it was the next on its link and all that it needed had arrived, else the first
    that was sent and never arrived. Others are missing only because of it. O(num_transfers log
    num_transfers).
    """
    for schedule, turn in zip(schedules, turns_of(schedules, sent, arrived), strict=True):
        sent_waves, waves_in = counts_of(schedule, *turn)
        ready = _is_next(schedule, sent_waves)
        for wave in np.unique(sent_waves[ready]):
            waiting = ready & (sent_waves == wave)
            ready[waiting] = _has_all_it_needs(schedule, waves_in > wave)[waiting]
        for missing, wave, what in (
            (ready, sent_waves, "was not sent, although all it needs had arrived"),
            (sent_waves > waves_in, waves_in, "was sent, and is not complete"),
        ):
            rows = np.flatnonzero(missing)
            if rows.size:
                row = int(rows[np.argmin((schedule.step + wave * schedule.period)[rows])])
                where = f" of wave {wave[row]}" if schedule.num_waves > 1 else ""
                return f"{schedule.describe(row)}{where} {what}"
    return ""


def _has_all_it_needs(schedule: Schedule, is_in: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Per transfer, whether all arrivals of its flow at its source in earlier steps are in."""
    shape = (schedule.num_flows, schedule.topology.num_ranks)
    # Earliest step of an arrival that is still out, per flow and rank.
    out = np.full(shape, np.iinfo(np.int64).max)
    missing = np.flatnonzero(~is_in)
    places = schedule.flow[missing], schedule.dst[missing]
    np.minimum.at(out, places, schedule.step[missing].astype(np.int64))
    complete: npt.NDArray[np.bool_] = schedule.step <= out[schedule.flow, schedule.src]
    return complete


def _is_next(schedule: Schedule, sent_waves: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Per transfer, whether it is the first on its link that was not sent, of all waves."""
    link = schedule.route_links[schedule.route_offsets[:-1]].astype(np.int64)
    by_time = np.argsort(schedule.step + sent_waves * schedule.period, kind="stable")
    waiting = by_time[sent_waves[by_time] < schedule.num_waves]
    first = np.zeros(schedule.num_transfers, dtype=np.bool_)
    first[waiting[positions_in_group(link[waiting]) == 0]] = True
    return first


_REGISTERS = ("STATUS", "FAULT", "FAULT_ROW", "ARRIVALS_MISSING", "FAULT_ORIGIN")
_READ_CYCLES = 1000
_MAX_LISTED = 8
_WATCHDOGS = (FaultCode.WATCHDOG, FaultCode.FIRST_ARRIVAL)
_FROM_NEIGHBOUR = (Awaited.DEPENDENCY, Awaited.SIBLING, Awaited.FLIT)


class StallError(DeviceError):
    """Watchdog fault: what a rank waits for never comes."""


def check_responses(network: Network) -> None:
    """Raise a DeviceError if an interface refused a register access of the last scripts."""
    for rank in range(network.topology.num_ranks):
        for op, result in zip(network.script(rank), network.results(rank), strict=True):
            if result["response"] and result["end"]:
                raise DeviceError(f"Rank {rank}: refused access to register {op['address']:#x}")


def check_status(network: Network, *, finished: bool, first_cycle: int, running: bool) -> None:
    """Read every interface's status, and raise a DeviceError if one has a fault or is not done.

    Of several faults the one nearest to its cause is reported, a watchdog's as `StallError`;
    without a fault, the first rank that was not in time. `running` says whether a collective ran,
    or tables were loaded, from `first_cycle` on.
    """
    # These come before the registers are read, for which hosts get other scripts.
    irq_cycles = network.irq_cycles()
    idle = [rank for rank in range(network.topology.num_ranks) if not _started(network, rank)]
    cycles = network.cycle - first_cycle
    words = _read_all(network)
    states = [
        {name: register_field("STATUS", name, word[0]) for name in ("busy", "done", "fault")}
        for word in words
    ]
    # A fault raises the interrupt and keeps it up, so that its cycle is that of the fault.
    faults = {
        rank: decode_fault(*words[rank][1:3], *words[rank][5:])
        for rank, state in enumerate(states)
        if state["fault"]
    }
    doing = "running a collective" if running else "loading the table"
    if faults:
        # A fault raises the interrupt, and keeps it up.
        rank = min(faults, key=lambda rank: (*_remoteness(faults[rank]), int(irq_cycles[rank])))
        text = f"{faults[rank].error(rank)}{_sender(network, rank, faults[rank])}; "
        # Where every rank was notified, it was a switch that stopped.
        notified = faults[rank].code == FaultCode.PEER_FAULT
        origin = origin_of(words[rank][4], network.topology.num_ranks) if notified else None
        text += f"{origin or f'origin rank {rank}'}; "
        text += f"{doing}, {int(irq_cycles[rank]) - first_cycle} cycles after it began"
        text += _listed("; also stopped", [other for other in faults if other != rank])
        kind = StallError if faults[rank].code in _WATCHDOGS else DeviceError
        raise kind(text + (_listed("; never started", idle) if running else ""))
    if not finished:
        rank = next((rank for rank, state in enumerate(states) if state["busy"]), 0)
        step = register_field("STATUS", "step", words[rank][0])
        raise DeviceError(
            f"Rank {rank}: {doing}, not over after {cycles} cycles, in step {step} with "
            f"{words[rank][3]} messages still to come in"
        )


def _started(network: Network, rank: int) -> bool:
    """True if a rank's host has written a start."""
    script, results = network.script(rank), network.results(rank)
    starts = (script["address"] == START[0]) & (script["value"] == START[1])
    return bool(results["end"][starts].any())


def _remoteness(fault: Fault) -> tuple[bool, bool, bool]:
    """Sort key of faults by distance from the cause: those that were notified or wait come last."""
    notified = fault.code == FaultCode.PEER_FAULT
    return notified, fault.code in _WATCHDOGS, fault.awaited in (Awaited.ARRIVALS, Awaited.NOTHING)


def _sender(network: Network, rank: int, fault: Fault) -> str:
    """Neighbour that should have sent the awaited message, in words."""
    topology = network.topology
    if fault.awaited not in _FROM_NEIGHBOUR or fault.port is None:
        return ""
    link = topology.link_at(rank, fault.port)
    if link is None:
        return ""
    node = int(topology.links[link, 1])
    return f" from {'rank' if node < topology.num_ranks else 'switch'} {node}"


def _listed(what: str, ranks: list[int]) -> str:
    if not ranks:
        return ""
    shown = ", ".join(map(str, ranks[:_MAX_LISTED]))
    more = f" and {len(ranks) - _MAX_LISTED} more" if len(ranks) > _MAX_LISTED else ""
    return f"{what} rank{'s' if len(ranks) > 1 else ''} {shown}{more}"


def _read_all(network: Network) -> list[list[int]]:
    """Status, fault, place of fault and missing arrivals of every rank, and last the wave."""
    ranks = range(network.topology.num_ranks)
    names = (*_REGISTERS, "FAULT_WAVE") if network.config.wave_width else _REGISTERS
    for rank in ranks:
        network.set_script(rank, [HostOp.read(ADDRESS[name]) for name in names])
    if not network.run(_READ_CYCLES):
        raise DeviceError("Interfaces must answer on their register bus, but one does not")
    return [[int(value) for value in network.results(rank)["value"]] for rank in ranks]
