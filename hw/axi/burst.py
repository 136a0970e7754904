"""Merges consecutive addresses into AXI4 bursts, with a bounded wait for more."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.axi.channels import INCR, NORMAL_NON_BUFFERABLE
from multitree.hw.component import check_integer

__all__ = [
    "MAX_BEATS",
    "PAGE_BYTES",
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
