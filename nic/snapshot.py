"""What the running collective goes by: the registers as at its start."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.register_file import writable

__all__ = ["OF_THE_TABLE", "Snapshot"]

OF_THE_TABLE = ("NUM_ROWS", "NUM_FLOWS", "WINDOW_FLITS", "TABLE_CRC")
"""Registers that belong to a table: they change with the bank, all others with a start."""


class Snapshot(wiring.Component):
    """Holds the registers still while a collective runs, so that the host may write the next.

    What belongs to the table is taken over when the banks are swapped; the rest follows the
    registers, a cycle later, as long as no collective runs.

    Members
    -------
    settings : In(32), one per written register
        The registers, in the order of `writable()`.
    swap : In(1)
        The shadow bank becomes the active one.
    held : In(1)
        A collective runs.
    used : Out(32), one per written register
        What it goes by, in the same order.
    """

    def __init__(self):
        count = len(writable())
        super().__init__(
            {
                "settings": In(32).array(count),
                "swap": In(1),
                "held": In(1),
                "used": Out(32).array(count),
            }
        )

    def elaborate(self, platform):
        """A register each."""
        m = Module()
        for name, written, used in zip(writable(), self.settings, self.used, strict=True):
            with m.If(self.swap if name in OF_THE_TABLE else ~self.held):
                m.d.sync += used.eq(written)
        return m
