"""A host on an interface's AXI4-Lite bus: the driver's steps, in simulation."""

from collections.abc import Iterable
from typing import Any, TypeVar

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, First
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from multitree.nic.driver.commands import (
    ACKNOWLEDGE,
    Fault,
    HostOp,
    OpKind,
    RunSettings,
    Steps,
    decode_fault,
)
from multitree.nic.driver.interface_driver import Counters, Driver
from multitree.nic.driver.registers import ADDRESS, register_field
from multitree.nic.driver.table import Table
from multitree.sim.cocotb.pins import is_high

__all__ = ["RegisterHost"]

T = TypeVar("T")

_MAX_POLLS, _POLL_CYCLES = 2000, 8
_MAX_ACCESS_CYCLES = 2000


class RegisterHost:
    """Host on an interface's AXI4-Lite bus, by the steps of the driver of a card.

    Parameters
    ----------
    dut : handle
        The design.
    prefix : str
        Of the interface's pins, such as ``rank_0_``.
    rank : int
        Whose interface it is, for messages.
    clock, reset : handle, optional
        Of the bus; ``dut.clk`` and ``dut.rst`` by default. A design without such a reset is reset
        before the first access.
    """

    def __init__(
        self, dut: Any, prefix: str = "", *, rank: int = 0, clock: Any = None, reset: Any = None
    ) -> None:
        self.driver = Driver(rank, max_polls=_MAX_POLLS, poll_cycles=_POLL_CYCLES)
        self._clock = dut.clk if clock is None else clock
        self._prefix = prefix
        reset = getattr(dut, "rst", None) if reset is None else reset
        self._irq = getattr(dut, f"{prefix}irq")
        bus = AxiLiteBus.from_prefix(dut, f"{prefix}s_axil")
        self._bus = AxiLiteMaster(bus, self._clock, reset)

    @property
    def channels(self) -> tuple[Any, ...]:
        """The five channels of the bus; each pauses while its `pause` is set."""
        write, read = self._bus.write_if, self._bus.read_if
        return write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel

    @property
    def interrupt(self) -> bool:
        """True if the interrupt is high."""
        return is_high(self._irq.value)

    async def write(self, address: int, value: int) -> None:
        """Write 32 bits to a byte address; AssertionError if it is refused."""
        what = f"write of {value:#x} to {_called(address)}"
        reply = await self._answered(self._bus.write(address, value.to_bytes(4, "little")), what)
        assert reply.resp == AxiResp.OKAY, f"{self._prefix}s_axil_bresp: {what} was refused"

    async def write_all(self, writes: Iterable[tuple[int, int]]) -> None:
        """Write values to byte addresses."""
        for address, value in writes:
            await self.write(address, value)

    async def read(self, register: str | int) -> int:
        """Read a register by its name or byte address; AssertionError if it is refused."""
        address = ADDRESS[register] if isinstance(register, str) else register
        what = f"read of {_called(address)}"
        reply = await self._answered(self._bus.read(address, 4), what)
        assert reply.resp == AxiResp.OKAY, f"{self._prefix}s_axil_rresp: {what} was refused"
        return int.from_bytes(reply.data, "little")

    async def _answered(self, access: Any, what: str) -> Any:
        """Result of an access to the bus, which must come in time."""
        task = cocotb.start_soon(access)
        await First(task, ClockCycles(self._clock, _MAX_ACCESS_CYCLES))
        assert task.done(), (
            f"{self._prefix}s_axil: no answer within {_MAX_ACCESS_CYCLES} cycles to a {what}"
        )
        return task.result()

    async def status(self, field: str) -> int:
        """A field of STATUS, read now."""
        return register_field("STATUS", field, await self.read("STATUS"))

    async def fault(self) -> Fault:
        """Read and decode the fault."""
        return decode_fault(await self.read("FAULT"), await self.read("FAULT_ROW"))

    async def load(self, table: Table, settings: RunSettings) -> None:
        """Load and commit a table; DeviceError unless it is checked and the links come up."""
        await self.perform(self.driver.load_table(table))
        await self.perform(self.driver.commit(settings))

    async def start(self) -> None:
        """Run the committed table once."""
        await self.perform(self.driver.start())

    async def wait(self, timeout_cycles: int) -> None:
        """Wait until the collective is done, and acknowledge it; DeviceError if it fails."""
        await self.perform(self.driver.wait(timeout_cycles))

    async def run(self, timeout_cycles: int) -> bool:
        """Start, and wait for the interrupt; True if the collective is done, False in a fault.

        One that is done may meet a fault before its host reads STATUS: that is a fault. It is not
        acknowledged. AssertionError if there is no interrupt in time, or one without a reason.
        """
        await self.start()
        assert await self._wait_irq(timeout_cycles), (
            f"{self._prefix}irq: not high within {timeout_cycles} cycles, "
            f"{await self.read('ARRIVALS_MISSING')} messages have not come in"
        )
        word = await self.read("STATUS")
        done, fault = (register_field("STATUS", name, word) for name in ("done", "fault"))
        assert done or fault, f"{self._prefix}irq: high, where STATUS ({word:#x}) has no reason"
        return not fault

    async def acknowledge(self) -> None:
        """Lower the interrupt; it is high again if the next collective is done meanwhile."""
        await self.write(*ACKNOWLEDGE)

    async def counters(self) -> Counters:
        """Read the counters of the last collective."""
        return await self.perform(self.driver.counters())

    async def reset(self, sequence: int = 0) -> None:
        """Reset the interface but for its bus; the next collective has that number."""
        await self.perform(self.driver.reset(sequence))

    async def perform(self, steps: Steps[T]) -> T:
        """Perform the accesses of a method of `Driver`; returns what that returns."""
        try:
            ops = next(steps)
            while True:
                ops = steps.send([await self._do(op) for op in ops])
        except StopIteration as end:
            result: T = end.value
            return result

    async def _do(self, op: HostOp) -> int:
        match op.kind:
            case OpKind.WRITE:
                await self.write(op.address, op.value)
            case OpKind.READ:
                return await self.read(op.address)
            case OpKind.WAIT:
                await ClockCycles(self._clock, op.value)
            case OpKind.WAIT_IRQ:
                return await self._wait_irq(op.value)
        return 0

    async def _wait_irq(self, timeout_cycles: int) -> int:
        for _ in range(timeout_cycles):
            if self.interrupt:
                return 1
            await FallingEdge(self._clock)
        return int(self.interrupt)


def _called(address: int) -> str:
    return next((name for name, place in ADDRESS.items() if place == address), f"{address:#x}")
