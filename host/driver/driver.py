"""The driver of one interface: what a host writes and reads to run a table."""

from collections.abc import Callable
from functools import partial
from typing import Any

from multitree.host.driver.card import Bus, Counters, Sizes
from multitree.nic.faults import DeviceError, FaultCode
from multitree.nic.program import (
    ACKNOWLEDGE,
    COMMIT,
    DTYPE_CODES,
    START,
    RunSettings,
    count_addresses,
    counts_of,
    decode_fault,
    origin_of,
    reset_writes,
    run_writes,
    table_writes,
)
from multitree.nic.registers import ADDRESS, ID, VERSION, register_field
from multitree.nic.table import Table

__all__ = ["Bus", "Counters", "Driver", "Sizes"]

MAX_POLLS = 100_000


class Driver:
    """Loads, commits, starts and awaits the table of one interface.

    Parameters
    ----------
    bus : Bus
        The way to its registers.
    rank : int
        Whose interface it is, for messages.
    """

    def __init__(self, bus: Bus, rank: int) -> None:
        self._bus = bus
        self._rank = rank
        self._ports: list[int] = []

    def probe(self) -> Sizes:
        """Read what the interface is.

        Returns
        -------
        Sizes

        Raises
        ------
        DeviceError
            If there is no interface behind the bus, or one with another register map.
        """
        found = self._read("ID")
        if found != ID:
            raise self._error(f"ID must be {ID:#010x}, not {found:#010x}: no interface there")
        found = self._read("VERSION")
        if found != VERSION:
            raise self._error(f"register map must be version {VERSION}, not {found}")
        word = self._read("PARAMETERS")
        dtypes = register_field("PARAMETERS", "dtypes", word)
        return Sizes(
            num_ports=register_field("PARAMETERS", "num_ports", word),
            flit_bytes=register_field("PARAMETERS", "flit_bytes", word),
            submessage_flits=register_field("PARAMETERS", "submessage_flits", word),
            table_depth=self._read("TABLE_DEPTH"),
            num_flows=self._read("FLOW_DEPTH"),
            buffer_flits=self._read("BUFFER_FLITS"),
            dtypes=tuple(name for name, code in DTYPE_CODES.items() if dtypes >> code & 1),
        )

    def reset(self, sequence: int = 0) -> None:
        """Reset all but the bus, and wait until memory has answered what was asked before.

        Its links go down and come up again, with all that was in flight on them gone: a neighbour
        that runs a collective takes a fault, and has to be reset too. Where one interface alone is
        reset, `rejoin` loses nothing.

        Parameters
        ----------
        sequence : int
            Number of the next collective, the same on all interfaces.

        Raises
        ------
        ValueError
            If the number does not fit 32 bits.
        DeviceError
            If memory does not answer, so that the reset does not end.
        """
        for address, value in reset_writes(sequence):
            self._write(address, value)
        self._poll_status("reset is not over", lambda field: not field("busy"))

    def sequence(self) -> int:
        """Number of the collective that runs or is next."""
        return self._read("SEQUENCE")

    def await_delivery(self) -> None:
        """Wait until all that this interface sent was taken by the other ends of its links.

        Its memory and its results are its own before that; but a reset would lose what is still on
        the links. On shared links the other end is the first switch.

        Raises
        ------
        DeviceError
            If a collective runs or starts and does not end, somebody does not take what was sent,
            or there is a fault.
        """
        self._poll_status("not delivered", lambda field: field("delivered"), faults=True)

    def rejoin(self, sequence: int | None = None) -> None:
        """Reset this interface alone, between two collectives, and go on with the others.

        Its table has to be loaded again. Neighbours must be idle and have delivered, too
        (`await_delivery`): what is on the way to this one is lost.

        Parameters
        ----------
        sequence : int, optional
            Number of its next collective; without it what `sequence` says before the reset.

        Raises
        ------
        ValueError
            If the number does not fit 32 bits.
        DeviceError
            As `await_delivery` and `reset`, or if the interface cannot count so far.
        """
        self.await_delivery()
        sequence = self.sequence() if sequence is None else sequence
        self.reset(sequence)
        found = self.sequence()
        if found != sequence:
            raise self._error(f"next collective must be number {sequence}, not {found}")

    def _poll_status(
        self, what: str, over: Callable[[Callable[[str], int]], Any], *, faults: bool = False
    ) -> None:
        """Read STATUS until its fields are such that something is over; perhaps raise a fault."""
        for _ in range(MAX_POLLS):
            status = self._read("STATUS")
            if faults:
                self._check_fault(status)
            if over(partial(register_field, "STATUS", word=status)):
                return
        raise self._error(f"{what} after {MAX_POLLS} reads of STATUS")

    def load_table(self, table: Table) -> None:
        """Write a table and its flow memory, also while another one runs.

        Parameters
        ----------
        table : Table
            Compiled for this rank.

        Raises
        ------
        DeviceError
            If it is another rank's, or does not fit the interface.
        """
        if table.rank != self._rank:
            raise self._error(f"table must be this rank's, not rank {table.rank}'s")
        sizes = self.probe()
        for what, value, limit in (
            ("rows", table.num_rows, sizes.table_depth),
            ("flows", table.num_flows, sizes.num_flows),
        ):
            if value > limit:
                raise self._error(f"{what} of the table must be at most {limit}, not {value}")
        for address, value in table_writes(table):
            self._write(address, value)
        self._ports = table.ports_in_use()

    def commit(self, settings: RunSettings) -> None:
        """Set how and where to run, let the interface check the table, and await its links.

        Parameters
        ----------
        settings : RunSettings
            Type of the elements, place of the buffer, time limits.

        Raises
        ------
        DeviceError
            If the interface cannot reduce such elements, a row or a flow is illegal, the check does
            not end, or the link of a port that the table uses does not come up.
        """
        self._commit(settings)
        self._poll_status(
            "table is not accepted",
            lambda field: field("committed") and not field("locked"),
            faults=True,
        )
        self._await_links()

    def preload(self, table: Table, settings: RunSettings) -> None:
        """Load and commit the next table while one runs, and do not wait for it.

        A `start` after it runs the new table, as soon as what runs is done; each of the two
        collectives is then to be awaited. What is wrong with the table comes up in `wait`.

        Parameters
        ----------
        table : Table
            Compiled for this rank.
        settings : RunSettings
            For the collective after the one that runs.

        Raises
        ------
        DeviceError
            As `load_table`, or if another commit or start waits already.
        """
        if register_field("STATUS", "locked", self._read("STATUS")):
            raise self._error("nothing may wait to be committed or started before a preload")
        self.load_table(table)
        self._commit(settings)

    def _commit(self, settings: RunSettings) -> None:
        """Write settings that the interface can run, and the commit."""
        built = self.probe().dtypes
        if settings.dtype not in built:
            raise self._error(f"type of the elements must be one of {built}, not {settings.dtype}")
        for address, value in run_writes(settings):
            self._write(address, value)
        self._write(*COMMIT)

    def _await_links(self) -> None:
        """Wait until the link of every port in use is up at both ends."""
        down = self._ports
        for _ in range(MAX_POLLS):
            links = self._read("LINKS")
            down = [port for port in self._ports if not links >> port & 1]
            if not down:
                return
        raise self._error(f"link of port {down[0]} is not up after {MAX_POLLS} reads of LINKS")

    def start(self) -> None:
        """Run the committed table once, after what runs now and is checked."""
        self._write(*START)

    def wait(self, timeout_cycles: int) -> None:
        """Wait until the collective is complete in this rank's memory, and acknowledge it.

        Parameters
        ----------
        timeout_cycles : int
            Longest time to wait; the interface's own watchdog comes first if it is set.

        Raises
        ------
        DeviceError
            If the interface faulted: names rank, port, row, flow and what was awaited. If it is
            not done in time: names the step reached and how many messages are missing.
        """
        self._bus.wait_interrupt(timeout_cycles)
        status = self._read("STATUS")
        self._check_fault(status)
        if not register_field("STATUS", "done", status):
            raise self._error(
                f"not done after {timeout_cycles} cycles, in step "
                f"{register_field('STATUS', 'step', status)} with "
                f"{self._read('ARRIVALS_MISSING')} messages still to come in"
            )
        self._write(*ACKNOWLEDGE)

    def counters(self) -> Counters:
        """Read the counters of the last collective, before the next one starts."""
        num_ports = register_field("PARAMETERS", "num_ports", self._read("PARAMETERS"))
        words = [self._bus.read(address) for address in count_addresses(range(num_ports))]
        return Counters(cycles=self._read("CYCLES"), ports=counts_of(words))

    def _check_fault(self, status: int) -> None:
        """Raise the fault that STATUS speaks of."""
        if register_field("STATUS", "fault", status):
            repeats = register_field("PARAMETERS", "wave_width", self._read("PARAMETERS"))
            wave = self._read("FAULT_WAVE") if repeats else 0
            fault = decode_fault(self._read("FAULT"), self._read("FAULT_ROW"), wave)
            if fault.code != FaultCode.PEER_FAULT:
                raise fault.error(self._rank)
            origin = origin_of(self._read("FAULT_ORIGIN"))
            raise DeviceError(f"{fault.error(self._rank)}; {origin}")

    def _read(self, name: str) -> int:
        return self._bus.read(ADDRESS[name])

    def _write(self, address: int, value: int) -> None:
        self._bus.write(address, value)

    def _error(self, text: str) -> DeviceError:
        return DeviceError(f"Rank {self._rank}: {text}")
