"""Memory channels over AXI4: a block that reads and one that writes."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.axi.burst import (
    MAX_BEATS,
    BurstBuilder,
    burst_layout,
    byte_address_width,
    offer_bursts,
)
from multitree.hw.axi.channels import OKAY, AxiReadSignature, AxiWriteSignature
from multitree.hw.check_bits import Checked
from multitree.hw.component import check_integer
from multitree.hw.memory_channel import ReadChannelSignature, WriteChannelSignature
from multitree.hw.stream import Fifo, Register

__all__ = ["AxiReader", "AxiWriter"]


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
    address_width, flit_bytes : int
        Bits of a flit's address; bytes of a flit and of a beat, a power of two up to 128.
    depth : int
        Most reads in flight.
    gather_cycles : int
        Longest time for which a read waits for others to form a burst (0..15).

    Members
    -------
    channel, bus : In(ReadChannelSignature), Out(AxiReadSignature)
        The reads, and the bus with byte addresses.
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


class AxiWriter(wiring.Component):
    """Writes flits over AXI4 for a write channel, consecutive ones in bursts.

    A write is acknowledged after the response to its burst, one write per cycle. With a response
    that is not OKAY `channel.error` says so before the first acknowledgement of the burst; a
    response to no burst is the error without one, and so are flipped bits of what is queued. Up to
    `depth` writes are in flight, all with the same id, so that responses come in order. W never
    waits for AW nor AW for W.

    Latency from a write to AW 2 cycles and to W 3, and `gather_cycles` more at most
    (`BurstBuilder`); from B to the burst's first acknowledgement 1 cycle. One flit per cycle as
    long as the bus answers within `depth` - 2 * `gather_cycles` - 4 cycles after a burst's last
    beat. What goes to the bus comes from registers.

    Parameters
    ----------
    address_width, flit_bytes, gather_cycles : int
        As of `AxiReader`.
    depth : int
        Most writes in flight, at least 3.

    Members
    -------
    channel, bus : In(WriteChannelSignature), Out(AxiWriteSignature)
        The writes, and the bus with byte addresses.
    """

    def __init__(self, *, address_width: int, flit_bytes: int, depth: int, gather_cycles: int = 3):
        self._sizes = {"address_width": address_width, "flit_bytes": flit_bytes}
        self.depth = check_integer("Depth", depth, least=3)
        self.gather_cycles = check_integer(
            "Gather cycles", gather_cycles, least=0, most=MAX_BEATS - 1
        )
        wide = byte_address_width(**self._sizes)
        self.address_width, self.flit_bytes = address_width, flit_bytes
        super().__init__(
            {
                "channel": In(WriteChannelSignature(**self._sizes)),
                "bus": Out(AxiWriteSignature(address_width=wide, data_bytes=flit_bytes)),
            }
        )

    def elaborate(self, platform):
        """A burst goes to three places: AW, the data that wait for it, and the responses."""
        m = Module()
        channel, depth = self.channel, self.depth
        layout = burst_layout(address_width=self._sizes["address_width"])
        m.submodules.builder = builder = BurstBuilder(
            **self._sizes, gather_cycles=self.gather_cycles
        )
        width, beats = 8 * self._sizes["flit_bytes"], range(MAX_BEATS)
        m.submodules.bursts = bursts = Checked(Register, shape=layout)
        m.submodules.flits = flits = Checked(Fifo, shape=width, depth=depth)
        # There may be as many bursts as writes: single beats.
        m.submodules.lengths = lengths = Checked(Fifo, shape=beats, depth=depth)
        m.submodules.expected = expected = Checked(Fifo, shape=beats, depth=depth)
        free, taken = Signal(), Signal()
        m.d.comb += [
            builder.i.valid.eq(channel.valid & free),
            builder.i.payload.eq(channel.address),
            channel.ready.eq(builder.i.ready & free),
            taken.eq(channel.valid & channel.ready),
            flits.i.valid.eq(taken),
            flits.i.payload.eq(channel.data),
            # All three or none: they have to hold the same bursts.
            builder.room.eq(bursts.i.ready & lengths.i.ready & expected.i.ready),
            bursts.i.payload.eq(builder.burst),
            lengths.i.payload.eq(builder.burst.more),
            expected.i.payload.eq(builder.burst.more),
        ]
        m.d.comb += [queue.i.valid.eq(builder.valid) for queue in (bursts, lengths, expected)]
        offer_bursts(m, self.bus, "aw", bursts.o, flit_bytes=self._sizes["flit_bytes"])
        self._send(m, flits.o, lengths.o)
        flipped = Cat(queue.state_error for queue in (bursts, flits, lengths, expected)).any()
        room = self._acknowledge(m, expected.o, taken, flipped)
        m.d.comb += free.eq(room & flits.i.ready)
        return m

    def _send(self, m, flits, lengths):
        """Data of the bursts whose length is known."""
        bus = self.bus
        beat, moved = Signal(range(MAX_BEATS)), Signal()
        m.d.comb += [
            bus.wdata.eq(flits.payload),
            bus.wstrb.eq(~0),
            # A beat waits until its burst was handed on: before that WLAST is not known.
            bus.wvalid.eq(flits.valid & lengths.valid),
            bus.wlast.eq(beat == lengths.payload),
            moved.eq(bus.wvalid & bus.wready),
            flits.ready.eq(moved),
            lengths.ready.eq(moved & bus.wlast),
        ]
        with m.If(moved):
            m.d.sync += beat.eq(Mux(bus.wlast, 0, beat + 1))

    def _acknowledge(self, m, expected, taken, flipped):
        """Turn responses into acknowledgements; returns whether a write may be taken."""
        channel, bus = self.channel, self.bus
        unanswered, due = (Signal(range(self.depth + 1), name=n) for n in ("unanswered", "due"))
        answered, refused = Signal(range(MAX_BEATS + 1)), Signal()
        m.d.comb += [
            bus.bready.eq(1),
            # In time: the burst's data waited for `lengths`, a queue of the same latency.
            expected.ready.eq(bus.bvalid),
            answered.eq(Mux(bus.bvalid & expected.valid, expected.payload + 1, 0)),
            refused.eq(bus.bvalid & ((bus.bresp != OKAY) | ~expected.valid)),
            channel.error.eq(refused | flipped),
            channel.ack.eq(due != 0),
        ]
        m.d.sync += [
            unanswered.eq(unanswered + taken - answered),
            # One response answers up to 16 writes; the channel takes one acknowledgement a cycle.
            due.eq(due + answered - channel.ack),
        ]
        return unanswered != self.depth
