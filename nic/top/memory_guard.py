"""Lets no read or write of a port leave the window, and names memory's errors."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.signatures import MemorySignature, RunSignature

__all__ = ["MemoryGuard"]

_CHANNELS = ("send", "fetch", "write")


class MemoryGuard(wiring.Component):
    """Stands between a port's blocks and memory, and holds back what is not in the window.

    Tables are checked before they run; this holds whatever a table, a head or a broken counter
    says. An access with an address outside the window is never offered to memory nor taken: it
    is a fault in the next cycle, and stays where it is until the reset that a fault needs. An error
    of memory is a fault in its own cycle. Everything else passes as it is, in the same cycle. The
    window's end is a register: a new window holds from the next cycle on.

    Members
    -------
    run : In(RunSignature)
        The collective that runs, with its window.
    inner, outer : In, Out(MemorySignature)
        Channels of the port's blocks and of the memory.
    fault : Out(8)
    awaited : Out(3)
        `Awaited`: whether a read or a write is at fault.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "run": In(RunSignature(config)),
                "inner": In(MemorySignature(config)),
                "outer": Out(MemorySignature(config)),
                "fault": Out(8),
                "awaited": Out(3),
            }
        )

    def elaborate(self, platform):
        """Two comparisons side by side per channel; the sum before them is a register."""
        m = Module()
        run = self.run
        # Which channels ask for what is outside is a register too: an access comes late in its
        # cycle, and whoever gathers faults of all ports is far away.
        # One bit more: the window may reach to the last address, and ends behind it.
        end = Signal(self.config.address_width + 1)
        m.d.sync += end.eq(run.window_base + run.window_flits)
        outside, errors = Signal(len(_CHANNELS)), []
        for number, name in enumerate(_CHANNELS):
            inner, outer = getattr(self.inner, name), getattr(self.outer, name)
            inside = Signal(name=f"{name}_inside")
            m.d.comb += [
                inside.eq((inner.address >= run.window_base) & (inner.address < end)),
                outer.valid.eq(inner.valid & inside),
                outer.address.eq(inner.address),
                inner.ready.eq(outer.ready & inside),
                inner.error.eq(outer.error),
            ]
            m.d.sync += outside[number].eq(inner.valid & ~inside)
            errors.append(outer.error)
            forth, back = (["data"], ["ack"]) if name == "write" else ([], ["data_valid", "data"])
            m.d.comb += [getattr(outer, label).eq(getattr(inner, label)) for label in forth]
            m.d.comb += [getattr(inner, label).eq(getattr(outer, label)) for label in back]
        # Later assignments win: an error of memory goes before an access that was held back.
        for strobes, code in (
            (outside, FaultCode.OUT_OF_WINDOW),
            (Cat(errors), FaultCode.MEMORY_ERROR),
        ):
            with m.If(strobes.any()):
                m.d.comb += [
                    self.fault.eq(code),
                    self.awaited.eq(Mux(strobes[-1], Awaited.MEMORY_WRITE, Awaited.MEMORY_READ)),
                ]
        return m
