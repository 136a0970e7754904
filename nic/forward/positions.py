"""Positions of flits that ports write, and what is shown and kept of them."""

from amaranth import Cat, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import parity_width
from multitree.nic.config import Config

__all__ = [
    "ForwardSignature",
    "PositionsSignature",
    "beginning_layout",
    "kept_width",
    "lead",
    "position_width",
]


def position_width(config: Config) -> int:
    """Bits of a flit's place among all that a port writes in a collective.

    Each address is written at most twice, by a REDUCE and a GATHER; one bit more tells which of two
    places is before the other.
    """
    return config.address_width + 2


def kept_width(config: Config) -> int:
    """Bits of a flit that a port keeps: with its parity, which is looked at where it goes."""
    return 8 * config.flit_bytes + parity_width(8 * config.flit_bytes)


def lead(of: Value, position: Value, step: Value) -> Value:
    """How far a port is beyond a position once that has moved on by a step, modulo its width.

    The step is the carry into one subtraction, since it is the last thing to be known.
    """
    width = len(position)
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
