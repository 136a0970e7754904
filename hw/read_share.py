"""Two readers on one read channel, the first one served before the second."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arguments import check_integer
from multitree.hw.memory_channel import ReadChannelSignature
from multitree.hw.stream import QuickFifo

__all__ = ["ReadShare"]


class ReadShare(wiring.Component):
    """Lets two readers share a read channel; the second one reads in the first one's idle cycles.

    Reads go on in the cycle in which they are asked, and data come back to whom they belong, in
    order. A read that memory has not taken yet is not replaced by the other reader's: what is
    offered stays. An error is told to both, since it concerns the channel.

    No latency; one read per cycle. Together the readers must not have more than `depth` reads in
    flight.

    Parameters
    ----------
    address_width : int
        Bits of an address.
    flit_bytes : int
        Bytes of a flit.
    depth : int
        Reads in flight, at least 3.

    Members
    -------
    first, second : In(ReadChannelSignature)
        The readers' channels.
    channel : Out(ReadChannelSignature)
        The memory's.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If `depth` is less than 3, or another argument less than 1.
    """

    def __init__(self, *, address_width: int, flit_bytes: int, depth: int):
        self._depth = check_integer("Depth", depth, least=3)
        channel = ReadChannelSignature(address_width=address_width, flit_bytes=flit_bytes)
        super().__init__({"first": In(channel), "second": In(channel), "channel": Out(channel)})

    def elaborate(self, platform):
        """A queue remembers whose each read in flight is."""
        m = Module()
        m.submodules.owners = owners = QuickFifo(shape=1, depth=self._depth)
        channel, readers = self.channel, (self.first, self.second)
        second, stays, kept = Signal(), Signal(), Signal()
        m.d.comb += [
            second.eq(Mux(stays, kept, ~self.first.valid)),
            channel.valid.eq(Mux(second, self.second.valid, self.first.valid)),
            channel.address.eq(Mux(second, self.second.address, self.first.address)),
            owners.i.valid.eq(channel.valid & channel.ready),
            owners.i.payload.eq(second),
            owners.o.ready.eq(channel.data_valid),
        ]
        m.d.sync += [stays.eq(channel.valid & ~channel.ready), kept.eq(second)]
        for number, reader in enumerate(readers):
            m.d.comb += [
                reader.ready.eq(channel.ready & (second == number)),
                reader.data_valid.eq(channel.data_valid & (owners.o.payload == number)),
                reader.data.eq(channel.data),
                reader.error.eq(channel.error),
            ]
        return m
