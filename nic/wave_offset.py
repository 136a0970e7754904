"""Where a wave's slice of the buffer begins: its number times the stride."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.config import Config

__all__ = ["WaveOffset"]


class WaveOffset(wiring.Component):
    """Multiplies a wave's number by its flow's stride: a cycle later, once per cycle.

    Modulo the address range: what does not fit is a host's mistake, which the memory guard finds.

    Parameters
    ----------
    config : Config

    Members
    -------
    wave : In(wave_width)
        The wave's number.
    stride : In(32)
        Flits from one wave of the flow to the next, of which addresses have `address_width` bits.
    offset : Out(address_width)
        Flits from the flow's first wave to this one, of the inputs one cycle before.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "wave": In(config.wave_width),
                "stride": In(32),
                "offset": Out(config.address_width),
            }
        )

    def elaborate(self, platform):
        """One multiplier with a register behind it, as blocks of FPGAs have them."""
        m = Module()
        if not len(self.wave):
            return m
        product = Signal.like(self.offset, reset_less=True)
        m.d.sync += product.eq(self.wave * self.stride[: len(self.offset)])
        m.d.comb += self.offset.eq(product)
        return m
