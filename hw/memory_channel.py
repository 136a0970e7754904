"""SRAM-style memory channels: what a block reads and writes flits through."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arguments import check_integer

__all__ = ["ReadChannelSignature", "WriteChannelSignature"]


def _check(address_width: int, flit_bytes: int) -> None:
    check_integer("Address width", address_width, least=1)
    check_integer("Flit bytes", flit_bytes, least=1)


class ReadChannelSignature(wiring.Signature):
    """A read channel, seen from the block that reads; addresses count flits.

    Parameters
    ----------
    address_width : int
        Bits of an address.
    flit_bytes : int
        Bytes of a flit.

    Members
    -------
    valid, address, ready : Out, Out, In
        A read is taken at an edge where valid and ready.
    data_valid, data : In
        One pulse per read, in order; room is reserved before the read, so it is never refused.
    error : In(1)
        Strobe, no later than the data it concerns: memory could not read. Data still come, and
        mean nothing.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If an argument is less than 1.
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
    """A write channel, seen from the block that writes; addresses count flits.

    Parameters
    ----------
    address_width : int
        Bits of an address.
    flit_bytes : int
        Bytes of a flit.

    Members
    -------
    valid, address, data, ready : Out, Out, Out, In
        A write is taken at an edge where valid and ready.
    ack : In(1)
        One pulse per write, in order: it is in memory, and every later read sees it.
    error : In(1)
        Strobe, no later than the acknowledgement it concerns: memory could not write. The
        acknowledgement still comes, and means nothing.

    Raises
    ------
    TypeError
        If an argument is not an integer.
    ValueError
        If an argument is less than 1.
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
