"""Memory channels over AXI4: addresses merged into bursts, a reader, a writer."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.axi.channels import (
    INCR,
    NORMAL_NON_BUFFERABLE,
    OKAY,
    AxiReadSignature,
    AxiWriteSignature,
)
from multitree.hw.check_bits import Checked
from multitree.hw.codes import check_integer
from multitree.hw.memory_channel import ReadChannelSignature, WriteChannelSignature
from multitree.hw.stream import Fifo, Register

__all__ = [
    "MAX_BEATS",
    "PAGE_BYTES",
    "AxiReader",
    "AxiWriter",
    "BurstBuilder",
    "burst_layout",
    "byte_address_width",
    "offer_bursts",
]

MAX_BEATS = 16
"""Beats of the longest burst."""
PAGE_BYTES = 4096
"""No burst may reach over a multiple of this: the standard's rule."""


def burst_layout(*, address_width: int) -> data.StructLayout:
    """A burst: address of its first flit, counted in flits, and the beats that follow the first."""
    return data.StructLayout({"address": address_width, "more": range(MAX_BEATS)})


def byte_address_width(*, address_width: int, flit_bytes: int) -> int:
    """Bits of a byte address where addresses of `address_width` bits count flits."""
    return address_width + flit_bytes.bit_length() - 1


def offer_bursts(m, bus, prefix, bursts, *, flit_bytes: int) -> None:
    """Put a stream of bursts (`burst_layout`) on a bus's address channel, `prefix` "aw" or "ar"."""
    burst = bursts.payload
    shift = flit_bytes.bit_length() - 1
    values = {
        "id": 0,
        "addr": burst.address << shift,
        "len": burst.more,
        "size": shift,
        "burst": INCR,
        "cache": NORMAL_NON_BUFFERABLE,
        "prot": 0,
        "valid": bursts.valid,
    }
    m.d.comb += [getattr(bus, f"{prefix}{name}").eq(value) for name, value in values.items()]
    m.d.comb += bursts.ready.eq(getattr(bus, f"{prefix}ready"))


class BurstBuilder(wiring.Component):
    """Collects consecutive addresses into one open burst and hands it on.

    The burst is handed on, while there is `room`, in the first cycle in which it has 16 beats or
    ends at a 4 KiB page, in which the next address is not its continuation or does not come, or
    `gather_cycles` after its first address at the latest. While there is no room it grows: a
    slave that takes few bursts gets long ones, one that takes a burst per cycle gets bursts of
    `gather_cycles` + 1 beats, or single beats where the addresses come with gaps.

    Latency from an address to its burst 1 cycle, and at most `gather_cycles` more; one address
    per cycle. `i.ready` depends on `i.payload` and `room` within a cycle, `burst.valid` on `i`
    and `room`; `burst.payload` is a register.

    Parameters
    ----------
    address_width : int
        Bits of an address that counts flits.
    flit_bytes : int
        Bytes of a flit, at most 4096.
    gather_cycles : int
        Longest time for which a burst that could go waits for more (0..15).

    Members
    -------
    i : In(stream)
        Addresses.
    room : In(1)
        A burst may be handed on in this cycle.
    valid, burst : Out(1), Out(burst_layout)
        Strobe, only while `room`: a burst is handed on.

    References
    ----------
    Arm, "AMBA AXI and ACE Protocol Specification", IHI 0022, section A3.4: bursts.
    """

    def __init__(self, *, address_width: int, flit_bytes: int, gather_cycles: int):
        self.address_width = check_integer("Address width", address_width, least=1)
        self.flit_bytes = check_integer("Flit bytes", flit_bytes, least=1, most=PAGE_BYTES)
        self._gather = check_integer("Gather cycles", gather_cycles, least=0, most=MAX_BEATS - 1)
        self.gather_cycles = gather_cycles
        super().__init__(
            {
                "i": In(stream.Signature(address_width)),
                "room": In(1),
                "valid": Out(1),
                "burst": Out(burst_layout(address_width=address_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        held, full = Signal(), Signal()
        following = Signal(self.address_width)
        age = Signal(range(self._gather + 1))
        page = (PAGE_BYTES // self.flit_bytes).bit_length() - 1
        inside = following[: min(page, self.address_width)]
        continues = Signal()
        m.d.comb += [
            # Nothing continues into a new page, nor past the last address: that one wraps to 0.
            full.eq((self.burst.more == MAX_BEATS - 1) | ~inside.any()),
            continues.eq(held & ~full & (self.i.payload == following)),
            self.valid.eq(held & self.room & (~self.i.valid | ~continues | (age == self._gather))),
            # Without room an address can only join the open burst.
            self.i.ready.eq(~held | self.room | continues),
        ]
        with m.If(age != self._gather):
            m.d.sync += age.eq(age + 1)
        with m.If(self.valid):
            m.d.sync += held.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [held.eq(1), following.eq(self.i.payload + 1)]
            # With `valid` the open burst leaves now: even its continuation begins a new one.
            with m.If(continues & ~self.valid):
                m.d.sync += self.burst.more.eq(self.burst.more + 1)
            with m.Else():
                m.d.sync += [
                    self.burst.address.eq(self.i.payload),
                    self.burst.more.eq(0),
                    age.eq(0),
                ]
        return m


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
