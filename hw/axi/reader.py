"""An AXI4 manager behind a read channel: reads consecutive flits in bursts."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arguments import check_integer
from multitree.hw.axi.burst import (
    MAX_BEATS,
    BurstBuilder,
    burst_layout,
    byte_address_width,
    offer_bursts,
)
from multitree.hw.axi.channels import OKAY, AxiReadSignature
from multitree.hw.checked_queue import Checked
from multitree.hw.memory_channel import ReadChannelSignature
from multitree.hw.stream import Register

__all__ = ["AxiReader"]


class AxiReader(wiring.Component):
    """Reads flits over AXI4 for a read channel, consecutive ones in bursts.

    Up to `depth` reads are in flight, all with the same id, so that data come in order; every
    beat is taken at once, since the channel has room reserved. A beat that is not OKAY is
    delivered together with `channel.error`; a beat that comes while nothing is read is the error
    without data, and so is a burst that went to the bus with flipped bits.

    Latency from a read to AR 2 cycles, and `gather_cycles` more at most (`BurstBuilder`); none
    from R to the channel, which is combinational. One flit per cycle as long as the bus answers
    within `depth` - `gather_cycles` - 3 cycles. What goes to the bus comes from registers.

    Parameters
    ----------
    address_width : int
        Bits of a flit's address.
    flit_bytes : int
        Bytes of a flit and of a beat, a power of two up to 128.
    depth : int
        Most reads in flight.
    gather_cycles : int
        Longest time for which a read waits for others to form a burst (0..15).

    Members
    -------
    channel : In(ReadChannelSignature)
        The reads.
    bus : Out(AxiReadSignature)
        The bus; byte addresses.

    Raises
    ------
    TypeError, ValueError
        If an argument is no integer, or out of range.
    """

    def __init__(self, *, address_width: int, flit_bytes: int, depth: int, gather_cycles: int = 3):
        self._sizes = {"address_width": address_width, "flit_bytes": flit_bytes}
        self.depth = check_integer("Depth", depth, least=1)
        self.gather_cycles = check_integer(
            "Gather cycles", gather_cycles, least=0, most=MAX_BEATS - 1
        )
        wide = byte_address_width(**self._sizes)
        self.address_width, self.flit_bytes = address_width, flit_bytes
        super().__init__(
            {
                "channel": In(ReadChannelSignature(**self._sizes)),
                "bus": Out(AxiReadSignature(address_width=wide, data_bytes=flit_bytes)),
            }
        )

    def elaborate(self, platform):
        """Bursts through a register to AR; R straight to the channel; a count between them."""
        m = Module()
        channel, bus = self.channel, self.bus
        layout = burst_layout(address_width=self._sizes["address_width"])
        m.submodules.builder = builder = BurstBuilder(
            **self._sizes, gather_cycles=self.gather_cycles
        )
        m.submodules.bursts = bursts = Checked(Register, shape=layout)
        inflight = Signal(range(self.depth + 1))
        free, taken, back, refused = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            free.eq(inflight != self.depth),
            builder.i.valid.eq(channel.valid & free),
            builder.i.payload.eq(channel.address),
            channel.ready.eq(builder.i.ready & free),
            taken.eq(channel.valid & channel.ready),
            builder.room.eq(bursts.i.ready),
            bursts.i.valid.eq(builder.valid),
            bursts.i.payload.eq(builder.burst),
            # Room was reserved for every read. RLAST is not looked at, since flits are counted.
            bus.rready.eq(1),
            back.eq(bus.rvalid & (inflight != 0)),
            channel.data_valid.eq(back),
            channel.data.eq(bus.rdata),
            refused.eq(bus.rvalid & ((bus.rresp != OKAY) | (inflight == 0))),
            channel.error.eq(refused | bursts.state_error),
        ]
        offer_bursts(m, bus, "ar", bursts.o, flit_bytes=self._sizes["flit_bytes"])
        m.d.sync += inflight.eq(inflight + taken - back)
        return m
