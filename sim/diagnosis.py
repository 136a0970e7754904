"""What went wrong in a network: every interface's fault, and which came first."""

from multitree.nic.faults import DeviceError
from multitree.nic.program import decode_fault
from multitree.nic.registers import ADDRESS, REGISTERS
from multitree.sim.network import HostOp, Network

__all__ = ["check_responses", "check_status", "status_field"]

_REGISTERS = ("STATUS", "FAULT", "FAULT_ROW", "ARRIVALS_MISSING")
_READ_CYCLES = 1000
_FIELDS = {
    (register.name, field.name): field
    for register in REGISTERS.registers
    for field in register.fields
}


def status_field(register: str, field: str, word: int) -> int:
    """A field of a register's word, by the names of the register map."""
    place = _FIELDS[register, field]
    return (word & place.mask) >> place.lsb


def check_responses(network: Network) -> None:
    """Raise if an interface refused a register access of the scripts that ran last.

    Raises
    ------
    DeviceError
        Names rank and address.
    """
    for rank in range(network.topology.num_ranks):
        for op, result in zip(network.script(rank), network.results(rank), strict=True):
            if result["response"] and result["end"]:
                raise DeviceError(f"Rank {rank}: refused access to register {op['address']:#x}")


def check_status(network: Network, *, finished: bool, first_cycle: int, doing: str) -> None:
    """Read every interface's status and raise if one has a fault, or is not done.

    Parameters
    ----------
    network : Network
        After a run.
    finished : bool
        Whether all scripts were over in time.
    first_cycle : int
        When the run began.
    doing : str
        What the network did, for the message.

    Raises
    ------
    DeviceError
        For the earliest fault; if there is none, for the first rank that was not in time.
    """
    irq_cycles = network.irq_cycles()
    cycles = network.cycle - first_cycle
    words = _read_all(network)
    faulted = [r for r, word in enumerate(words) if status_field("STATUS", "fault", word[0])]
    if faulted:
        # A fault raises the interrupt, and keeps it up.
        rank = min(faulted, key=lambda r: int(irq_cycles[r]))
        error = decode_fault(words[rank][1], words[rank][2]).error(rank)
        others = [r for r in faulted if r != rank]
        also = f"; later also ranks {', '.join(map(str, others))}" if others else ""
        cycle = int(irq_cycles[rank]) - first_cycle
        raise DeviceError(f"{error}; {doing}, {cycle} cycles after it began{also}")
    if not finished:
        busy = [r for r, word in enumerate(words) if status_field("STATUS", "busy", word[0])]
        rank = busy[0] if busy else 0
        step = status_field("STATUS", "step", words[rank][0])
        raise DeviceError(
            f"Rank {rank}: {doing}, not over after {cycles} cycles, in step {step} with "
            f"{words[rank][3]} messages still to come in"
        )


def _read_all(network: Network) -> list[list[int]]:
    """Status, fault, place of fault and missing arrivals of every rank."""
    ranks = range(network.topology.num_ranks)
    for rank in ranks:
        network.set_script(rank, [HostOp.read(ADDRESS[name]) for name in _REGISTERS])
    if not network.run(_READ_CYCLES):
        raise DeviceError("Interfaces must answer on their register bus, but one does not")
    return [[int(value) for value in network.results(rank)["value"]] for rank in ranks]
