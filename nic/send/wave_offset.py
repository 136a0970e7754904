"""Where a wave's chunk begins: its number times the stride, behind the first."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.config import Config

__all__ = ["WaveOffset"]


class WaveOffset(wiring.Component):
    """Multiplies a wave's number by its flow's stride: a cycle later, once per cycle.

    A product or a sum that no address holds is reported, since it would wrap around into the window
    of another wave, where no memory guard finds it.

    Parameters
    ----------
    config : Config

    Members
    -------
    wave : In(wave_width)
        The wave's number.
    stride : In(32)
        Flits from one wave of the flow to the next; `FlowCheck` passes none beyond an address.
    base : In(address_width)
        Where the flow's first wave begins, one cycle later.
    address : Out(address_width)
        Where this one begins, in that cycle.
    beyond : Out(1)
        It is beyond all addresses.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "wave": In(config.wave_width),
                "stride": In(32),
                "base": In(config.address_width),
                "address": Out(config.address_width),
                "beyond": Out(1),
            }
        )

    def elaborate(self, platform):
        """One multiplier with a register behind it, as blocks of FPGAs have them."""
        m = Module()
        width = len(self.base)
        product = Signal(width + len(self.wave), reset_less=True)
        m.d.sync += product.eq(self.wave * self.stride[:width])
        place = Signal(len(product) + 1)
        m.d.comb += [
            place.eq(self.base + product),
            self.address.eq(place),
            self.beyond.eq(place[width:].any()),
        ]
        return m
