"""A host on the register bus of one interface."""

from cocotb.triggers import FallingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from multitree.nic.program import ACKNOWLEDGE, COMMIT, START, decode_fault, run_writes, table_writes
from multitree.nic.registers import ADDRESS

__all__ = ["Host"]

BUSY, COMMITTED, DONE, FAULT, LOCKED = (1 << bit for bit in range(5))


class Host:
    """Loads a table and runs collectives, as a driver would.

    Parameters
    ----------
    dut : handle
        The design.
    prefix : str
        Of the interface's ports, e.g. "rank_0_".
    """

    def __init__(self, dut, prefix):
        self._clock = dut.clk
        self._irq = getattr(dut, f"{prefix}irq")
        self._bus = AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"{prefix}s_axil"), dut.clk, dut.rst)

    @property
    def channels(self):
        """The five channels of the bus; each stands still while its `pause` is set."""
        write, read = self._bus.write_if, self._bus.read_if
        return write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel

    async def write(self, address, value):
        """Write a register; refused is wrong."""
        reply = await self._bus.write(address, value.to_bytes(4, "little"))
        assert reply.resp == AxiResp.OKAY, f"write of {value:#x} to {address:#x} was refused"

    async def read(self, name):
        """Read a register by name."""
        reply = await self._bus.read(ADDRESS[name], 4)
        assert reply.resp == AxiResp.OKAY, f"read of {name} was refused"
        return int.from_bytes(reply.data, "little")

    async def load(self, table, settings):
        """Write table and settings, commit, and wait until the table is checked."""
        for address, value in [*table_writes(table), *run_writes(settings), COMMIT]:
            await self.write(address, value)
        for _ in range(100):
            if await self.read("STATUS") & (COMMITTED | FAULT):
                return
        raise AssertionError("the table was neither committed nor refused")

    async def run(self, num_cycles):
        """Start, and wait for the interrupt; returns the status."""
        await self.write(*START)
        for _ in range(num_cycles):
            if self._irq.value == 1:
                return await self.read("STATUS")
            await FallingEdge(self._clock)
        raise AssertionError(f"no interrupt within {num_cycles} cycles")

    async def acknowledge(self):
        """Lower the interrupt."""
        await self.write(*ACKNOWLEDGE)
        assert self._irq.value == 0

    async def fault(self):
        """The fault, decoded."""
        return decode_fault(await self.read("FAULT"), await self.read("FAULT_ROW"))
