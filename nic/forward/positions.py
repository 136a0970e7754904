"""Positions of the flits that ports write, and the last of these flits."""

from amaranth import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import parity_of, parity_width
from multitree.nic.driver.config import Config

__all__ = [
    "ForwardSignature",
    "PositionsSignature",
    "RecentWrites",
    "beginning_layout",
    "kept_width",
    "lead",
    "position_width",
]


def position_width(config: Config) -> int:
    """Bits of a flit's place among all that a port writes in a collective."""
    # Each address is written at most twice, by a REDUCE and a GATHER; one bit more tells which of
    # two places is before the other.
    return config.address_width + 2


def kept_width(config: Config) -> int:
    """Bits of a flit that a port keeps: with its parity, which is looked at where it goes."""
    return 8 * config.flit_bytes + parity_width(8 * config.flit_bytes)


def lead(of: Value, position: Value, step: Value) -> Value:
    """How far a port is beyond a position once that has moved on by a step, modulo its width."""
    width = len(position)
    # The step is the carry into one subtraction, since it is the last thing to be known.
    return (Cat(1, of) + Cat(~step, ~position))[1 : 1 + width]


def beginning_layout(config: Config) -> data.StructLayout:
    """Where a message begins among what its port writes: flow, port and op are known."""
    fields = {"position": position_width(config), "begun": 1, "wave": config.wave_width}
    return data.StructLayout(fields)


class PositionsSignature(wiring.Signature):
    """How far a port has come in a collective, in flits that it has written.

    Members
    -------
    written, acknowledged : Out(position_width)
        Flits that were handed to memory, and that memory has acknowledged.
    """

    def __init__(self, config: Config):
        width = position_width(config)
        super().__init__({"written": Out(width), "acknowledged": Out(width)})


class ForwardSignature(wiring.Signature):
    """What a block sees of all that ports have written, to go on with it.

    Members
    -------
    written, acknowledged : In(position_width), one per port
        How far each has come.
    address : Out(range(forward_flits))
        Lowest bits of a position, of all ports.
    kept : In(kept_width), one per port
        The flit that was written there, with its parity, in the cycle behind.
    """

    def __init__(self, config: Config):
        ports, width = config.num_ports, position_width(config)
        super().__init__(
            {
                "written": In(width).array(ports),
                "acknowledged": In(width).array(ports),
                "address": Out(range(config.forward_flits)),
                "kept": In(kept_width(config)).array(ports),
            }
        )


class RecentWrites(wiring.Component):
    """Keeps the last `forward_flits` flits that a port has handed to memory.

    A flit's position is its number among all that the port has written in the collective. It is
    kept from the cycle behind `put` on, until so many others have followed. Whoever reads looks at
    positions first, a cycle before it asks for a flit at the earliest; it may know of positions
    that are some cycles old and has to leave as many flits of room. Nothing ever waits here:
    readers that are too late find the flit in memory, where it is once its position is below
    `acknowledged`.

    Latency 1 cycle from `coming` and `ack` to the positions, 1 from an address to its flit.

    Parameters
    ----------
    num_readers : int
        Blocks that read, each one flit per cycle.

    Members
    -------
    clear : In(1)
        No collective runs: positions begin at 0.
    coming, put, payload : In(1), In(1), In
        A flit goes to memory, in this cycle or in the next one; it goes; it.
    ack : In(1)
        Memory has acknowledged one, in order.
    positions : Out(PositionsSignature)
    addresses, kept : In(range(forward_flits)), Out(kept_width), one per reader
        Lowest bits of a position; the flit of those a cycle before, with its parity.
    """

    def __init__(self, config: Config, *, num_readers: int):
        self.config = config
        self.num_readers = num_readers
        super().__init__(
            {
                "clear": In(1),
                "coming": In(1),
                "put": In(1),
                "payload": In(8 * config.flit_bytes),
                "ack": In(1),
                "positions": Out(PositionsSignature(config)),
                "addresses": In(range(config.forward_flits)).array(num_readers),
                "kept": Out(kept_width(config)).array(num_readers),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth, positions = self.config.forward_flits, self.positions
        # A flit that is read is never the one that is being written.
        attrs = {"no_rw_check": 1}
        shape = kept_width(self.config)
        m.submodules.ring = ring = Memory(shape=shape, depth=depth, init=[], attrs=attrs)
        write, place = ring.write_port(), Signal(range(depth))
        m.d.comb += [
            write.en.eq(self.put),
            write.addr.eq(place),
            write.data.eq(Cat(self.payload, parity_of(self.payload))),
        ]
        m.d.sync += [
            place.eq(place + self.put),
            positions.written.eq(positions.written + self.coming),
            positions.acknowledged.eq(positions.acknowledged + self.ack),
        ]
        with m.If(self.clear):
            m.d.sync += [place.eq(0), positions.written.eq(0), positions.acknowledged.eq(0)]
        for address, kept in zip(self.addresses, self.kept, strict=True):
            read = ring.read_port()
            m.d.comb += [read.addr.eq(address), kept.eq(read.data)]
        return m
