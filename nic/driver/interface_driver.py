"""The driver of one interface: what a host writes and reads to run tables on it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from multitree.nic.driver.commands import (
    ACKNOWLEDGE,
    COMMIT,
    START,
    HostOp,
    PortCounts,
    RunSettings,
    Steps,
    count_addresses,
    counts_of,
    decode_fault,
    origin_of,
    reset_writes,
    run_writes,
)
from multitree.nic.driver.config import LANE_TYPES
from multitree.nic.driver.faults import DeviceError, FaultCode
from multitree.nic.driver.registers import ADDRESS, ID, VERSION, register_field
from multitree.nic.driver.table import Table, table_writes

__all__ = ["Counters", "Driver", "Sizes"]


@dataclass(frozen=True)
class Sizes:
    """Sizes that an interface says it was built with, as in `Config`."""

    num_ports: int
    flit_bytes: int
    submessage_flits: int
    table_depth: int
    num_flows: int
    buffer_flits: int
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class Counters:
    """Counters of the last collective."""

    cycles: int  # from start to done
    ports: tuple[PortCounts, ...]


class Driver:
    """Loads, commits, starts and awaits tables on one interface, whatever bus leads to it.

    It does no input or output: every method is a generator of `Steps` for the holder of the bus.
    `host.card.Card` performs them for one card, the emulation for all ranks at once. What goes
    wrong raises DeviceError with the rank, the limit and the value.
    """

    def __init__(self, rank: int, *, max_polls: int = 100_000, poll_cycles: int = 0) -> None:
        self.rank = rank
        self.max_polls = max_polls
        self.poll_cycles = poll_cycles
        self._ports: list[int] = []

    def probe(self) -> Steps[Sizes]:
        """Read the sizes; raises DeviceError without an interface, or with another register map."""
        found, version = yield from self._read("ID", "VERSION")
        if found != ID:
            raise self._error(f"ID must be {ID:#010x}, not {found:#010x}: no interface there")
        if version != VERSION:
            raise self._error(f"register map must be version {VERSION}, not {version}")
        names = ("PARAMETERS", "TABLE_DEPTH", "FLOW_DEPTH", "BUFFER_FLITS")
        word, table_depth, num_flows, buffer_flits = yield from self._read(*names)
        dtypes = register_field("PARAMETERS", "dtypes", word)
        return Sizes(
            num_ports=register_field("PARAMETERS", "num_ports", word),
            flit_bytes=register_field("PARAMETERS", "flit_bytes", word),
            submessage_flits=register_field("PARAMETERS", "submessage_flits", word),
            table_depth=table_depth,
            num_flows=num_flows,
            buffer_flits=buffer_flits,
            dtypes=tuple(name for name, code in LANE_TYPES.items() if dtypes >> code & 1),
        )

    def reset(self, sequence: int = 0) -> Steps[None]:
        """Reset all but the bus, and wait until memory has answered earlier requests; `sequence` is
        the number of the next collective, the same on all interfaces.

        Links go down and come up again, and lose what was in flight: a neighbour that runs a
        collective takes a fault. Where one interface alone is reset, `rejoin` loses nothing.
        """
        yield HostOp.writes(reset_writes(sequence))
        yield from self._poll_status("reset is not over", lambda field: not field("busy"))

    def sequence(self) -> Steps[int]:
        """Number of the collective that runs or is next."""
        (sequence,) = yield from self._read("SEQUENCE")
        return sequence

    def await_delivery(self) -> Steps[None]:
        """Wait until the other ends of its links, on shared links the first switches, have taken
        all flits.

        Its memory and results are complete before; but a reset would lose what is on the links.
        """
        yield from self._poll_status("not delivered", lambda field: field("delivered"), faults=True)

    def rejoin(self, sequence: int | None = None) -> Steps[None]:
        """Reset this interface alone between two collectives; its table has to be loaded again.

        Neighbours must be idle and have delivered, too (`await_delivery`): flits in flight to this
        one are lost. Its next collective is `sequence`, by default the number before the reset.
        """
        yield from self.await_delivery()
        # Read before the reset, which sets it to RESET_SEQUENCE.
        if sequence is None:
            sequence = yield from self.sequence()
        yield from self.reset(sequence)
        found = yield from self.sequence()
        # An interface may count fewer bits: 22 with flits of 8 bytes, 8 on shared links.
        if found != sequence:
            raise self._error(f"next collective must be number {sequence}, not {found}")

    def load_table(self, table: Table) -> Steps[None]:
        """Write a table of this rank and its flow memory, also while another one runs."""
        if table.rank != self.rank:
            raise self._error(f"table must be this rank's, not rank {table.rank}'s")
        sizes = yield from self.probe()
        for what, value, limit in (
            ("rows", table.num_rows, sizes.table_depth),
            ("flows", table.num_flows, sizes.num_flows),
        ):
            if value > limit:
                raise self._error(f"{what} of the table must be at most {limit}, not {value}")
        yield HostOp.writes(table_writes(table))
        self._ports = table.ports_in_use()

    def commit(self, settings: RunSettings) -> Steps[None]:
        """Set how and where to run, let the interface check the table, and await its links. Raises
        DeviceError for a type that is not built, an illegal row or flow, or a link that is down.
        """
        yield from self._commit(settings)
        yield from self.await_check()
        yield from self._await_links()

    def await_unlocked(self) -> Steps[None]:
        """Wait until nothing waits to be committed."""
        yield from self._poll_status("table is not checked", lambda field: not field("locked"))

    def await_check(self) -> Steps[None]:
        """Wait until a commit is checked; raises DeviceError where the table is refused."""
        yield from self._poll_status(
            "table is not accepted",
            lambda field: field("committed") and not field("locked"),
            faults=True,
        )

    def preload(self, table: Table, settings: RunSettings) -> Steps[None]:
        """Load and commit the next table while one runs, without waiting for it.

        A `start` after it runs the new table as soon as the old one is done; each collective is
        awaited by itself. An error in the table comes up in `wait`.
        """
        (status,) = yield from self._read("STATUS")
        if register_field("STATUS", "locked", status):
            raise self._error("nothing may wait to be committed or started before a preload")
        yield from self.load_table(table)
        yield from self._commit(settings)

    def start(self) -> Steps[None]:
        """Run the committed table once, after what runs now and is checked."""
        yield [HostOp.write(*START)]

    def wait(self, timeout_cycles: int) -> Steps[None]:
        """Wait until the collective is complete in this rank's memory, and acknowledge it.

        A fault, or a collective that is not done after `timeout_cycles`, raises DeviceError with
        port, row, flow and the awaited message, or step and missing messages.
        """
        yield [HostOp.wait_irq(timeout_cycles)]
        (status,) = yield from self._read("STATUS")
        yield from self._check_fault(status)
        if not register_field("STATUS", "done", status):
            (missing,) = yield from self._read("ARRIVALS_MISSING")
            raise self._error(
                f"not done after {timeout_cycles} cycles, in step "
                f"{register_field('STATUS', 'step', status)} with "
                f"{missing} messages still to come in"
            )
        yield [HostOp.write(*ACKNOWLEDGE)]

    def counters(self, ports: Iterable[int] | None = None) -> Steps[Counters]:
        """Counters of the last collective, of some ports or all, before the next one starts."""
        if ports is None:
            (word,) = yield from self._read("PARAMETERS")
            ports = range(register_field("PARAMETERS", "num_ports", word))
        addresses = [ADDRESS["CYCLES"], *count_addresses(ports)]
        cycles, *words = yield [HostOp.read(address) for address in addresses]
        return Counters(cycles, counts_of(words))

    def _read(self, *names: str) -> Steps[Sequence[int]]:
        return (yield [HostOp.read(ADDRESS[name]) for name in names])

    def _poll_status(
        self, what: str, over: Callable[[Callable[[str], int]], Any], *, faults: bool = False
    ) -> Steps[None]:
        """Read STATUS until a condition on its fields holds; optionally raise a fault."""
        for number in range(self.max_polls):
            wait = [HostOp.wait(self.poll_cycles)] if number and self.poll_cycles else []
            *_, status = yield [*wait, HostOp.read(ADDRESS["STATUS"])]
            if faults:
                yield from self._check_fault(status)
            if over(partial(register_field, "STATUS", word=status)):
                return
        raise self._error(f"{what} after {self.max_polls} reads of STATUS")

    def _commit(self, settings: RunSettings) -> Steps[None]:
        """Write settings that the interface can run, and the commit."""
        built = (yield from self.probe()).dtypes
        if settings.dtype not in built:
            raise self._error(f"type of the elements must be one of {built}, not {settings.dtype}")
        yield HostOp.writes([*run_writes(settings), COMMIT])

    def _await_links(self) -> Steps[None]:
        """Wait until the link of every port in use is up at both ends."""
        down = self._ports
        for _ in range(self.max_polls):
            (links,) = yield from self._read("LINKS")
            down = [port for port in self._ports if not links >> port & 1]
            if not down:
                return
        raise self._error(f"link of port {down[0]} is not up after {self.max_polls} reads of LINKS")

    def _check_fault(self, status: int) -> Steps[None]:
        """Raise the fault that STATUS reports."""
        if register_field("STATUS", "fault", status):
            word, first, row = yield from self._read("PARAMETERS", "FAULT", "FAULT_ROW")
            repeats = register_field("PARAMETERS", "wave_width", word)
            # Where tables are not repeated there is no such register: reading it is refused.
            (wave,) = (yield from self._read("FAULT_WAVE")) if repeats else (0,)
            fault = decode_fault(first, row, wave)
            if fault.code != FaultCode.PEER_FAULT:
                raise fault.error(self.rank)
            (word,) = yield from self._read("FAULT_ORIGIN")
            raise DeviceError(f"{fault.error(self.rank)}; {origin_of(word)}")

    def _error(self, text: str) -> DeviceError:
        return DeviceError(f"Rank {self.rank}: {text}")
