"""SRAM-style memory channels, and two readers on one of them."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import stay
from multitree.hw.check_bits import check_of, is_intact
from multitree.hw.codes import check_integer, check_width
from multitree.hw.stream import next_place

__all__ = [
    "ReadChannelSignature",
    "ReadShare",
    "WriteChannelSignature",
]


def _check(address_width: int, flit_bytes: int) -> None:
    check_integer("Address width", address_width, least=1)
    check_integer("Flit bytes", flit_bytes, least=1)


class ReadChannelSignature(wiring.Signature):
    """A read channel, seen from the block that reads; addresses count flits of `flit_bytes` bytes.

    Members
    -------
    valid, address, ready : Out, Out, In
        A read is taken at an edge where valid and ready.
    data_valid, data : In
        One pulse per read, in order; room is reserved before the read, so it is never refused.
    error : In(1)
        Strobe, no later than the data it concerns: memory could not read. Data still come, and
        mean nothing.
    """

    def __init__(self, *, address_width: int, flit_bytes: int):
        _check(address_width, flit_bytes)
        super().__init__(
            {
                "valid": Out(1),
                "address": Out(address_width),
                "ready": In(1),
                "data_valid": In(1),
                "data": In(8 * flit_bytes),
                "error": In(1),
            }
        )


class WriteChannelSignature(wiring.Signature):
    """A write channel, seen from the block that writes; addresses count flits of `flit_bytes`
    bytes.

    Members
    -------
    valid, address, data, ready : Out, Out, Out, In
        A write is taken at an edge where valid and ready.
    ack : In(1)
        One pulse per write, in order: it is in memory, and every later read sees it.
    error : In(1)
        Strobe, no later than the acknowledgement it concerns: memory could not write. The
        acknowledgement still comes, and means nothing.
    """

    def __init__(self, *, address_width: int, flit_bytes: int):
        _check(address_width, flit_bytes)
        super().__init__(
            {
                "valid": Out(1),
                "address": Out(address_width),
                "data": Out(8 * flit_bytes),
                "ready": In(1),
                "ack": In(1),
                "error": In(1),
            }
        )


class ReadShare(wiring.Component):
    """Lets two readers share a read channel; the second one reads in the first one's idle cycles.

    Reads go on in the cycle in which they are asked, and data come back to whom they belong, in
    order. A read that memory has not taken yet is not replaced by the other reader's: what is
    offered stays. An error is reported to both, since it concerns the channel.

    No latency; one read per cycle. Together the readers must not have more than `depth` reads in
    flight.

    Members
    -------
    first, second : In(ReadChannelSignature)
        The readers' channels.
    channel : Out(ReadChannelSignature)
        The memory's.
    state_error : Out(1)
        Strobe: whose a read is has flipped bits; a cycle behind its data.
    """

    def __init__(self, *, address_width: int, flit_bytes: int, depth: int):
        self.depth = check_integer("Depth", depth, least=1)
        channel = ReadChannelSignature(address_width=address_width, flit_bytes=flit_bytes)
        self.address_width, self.flit_bytes = address_width, flit_bytes
        super().__init__(
            {
                "first": In(channel),
                "second": In(channel),
                "channel": Out(channel),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        channel, readers = self.channel, (self.first, self.second)
        # A read that memory has not taken keeps its address, even when the first reader asks next.
        second = stay(m, ~self.first.valid, channel.valid, channel.ready)
        m.d.comb += [
            channel.valid.eq(Mux(second, self.second.valid, self.first.valid)),
            channel.address.eq(Mux(second, self.second.address, self.first.address)),
        ]
        owner = self._owner(m, channel.valid & channel.ready, second)
        for number, reader in enumerate(readers):
            m.d.comb += [
                reader.ready.eq(channel.ready & (second == number)),
                reader.data_valid.eq(channel.data_valid & (owner == number)),
                reader.data.eq(channel.data),
                # An error may come before its data, so it is not known whose read it concerns.
                reader.error.eq(channel.error),
            ]
        return m

    def _owner(self, m, taken, second):
        """Whose the oldest read in flight is, a register: known in the cycle after it was taken."""
        shape, answered = 1 + check_width(1), self.channel.data_valid
        m.submodules.owners = owners = Memory(shape=shape, depth=self.depth, init=[])
        write, read = owners.write_port(), owners.read_port(domain="comb")
        place, oldest = Signal(range(self.depth)), Signal(shape)
        for address, moves in ((write.addr, taken), (place, answered)):
            with m.If(moves):
                m.d.sync += address.eq(next_place(address, self.depth))
        m.d.comb += [
            write.en.eq(taken),
            write.data.eq(Cat(second, check_of(second))),
            read.addr.eq(Mux(answered, next_place(place, self.depth), place)),
        ]
        is_written = taken & (write.addr == read.addr)
        m.d.sync += [
            oldest.eq(Mux(is_written, write.data, read.data)),
            self.state_error.eq(answered & ~is_intact(oldest[:1], oldest[1:])),
        ]
        return oldest[:1]
