"""AXI4: the channels of a manager that moves whole words in bursts."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import check_integer

__all__ = [
    "INCR",
    "NORMAL_NON_BUFFERABLE",
    "OKAY",
    "AxiReadSignature",
    "AxiSignature",
    "AxiWriteSignature",
]


INCR = 1
"""Type of a burst whose addresses go up."""
NORMAL_NON_BUFFERABLE = 0b0010
"""Cache attributes: a write's response comes from where every later read sees it."""
OKAY = 0
"""The only good response; an exclusive one is never asked for."""


def _check(address_width: int, data_bytes: int) -> None:
    check_integer("Address width", address_width, least=1, most=64)
    check_integer("Data bytes", data_bytes, least=1, most=128)
    if data_bytes & (data_bytes - 1):
        raise ValueError(f"Data bytes must be a power of two, not {data_bytes!r}")


def _address_channel(prefix: str, address_width: int) -> dict:
    """Members of AW or AR."""
    return {
        f"{prefix}id": Out(1),
        f"{prefix}addr": Out(address_width),
        f"{prefix}len": Out(8),
        f"{prefix}size": Out(3),
        f"{prefix}burst": Out(2),
        f"{prefix}cache": Out(4),
        f"{prefix}prot": Out(3),
        f"{prefix}valid": Out(1),
        f"{prefix}ready": In(1),
    }


def _read_members(address_width: int, data_bytes: int) -> dict:
    return {
        **_address_channel("ar", address_width),
        "rid": In(1),
        "rdata": In(8 * data_bytes),
        "rresp": In(2),
        "rlast": In(1),
        "rvalid": In(1),
        "rready": Out(1),
    }


def _write_members(address_width: int, data_bytes: int) -> dict:
    return {
        **_address_channel("aw", address_width),
        "wdata": Out(8 * data_bytes),
        "wstrb": Out(data_bytes),
        "wlast": Out(1),
        "wvalid": Out(1),
        "wready": In(1),
        "bid": In(1),
        "bresp": In(2),
        "bvalid": In(1),
        "bready": Out(1),
    }


class AxiReadSignature(wiring.Signature):
    """The two read channels of an AXI4 bus, seen from the manager; names as in the standard.

    Parameters
    ----------
    address_width : int
        Bits of a byte address (1..64).
    data_bytes : int
        Bytes of a beat, a power of two (1..128).

    Members
    -------
    arid, araddr, arlen, arsize, arburst, arcache, arprot, arvalid, arready : Out, In(1)
        A burst to read.
    rid, rdata, rresp, rlast, rvalid, rready : In, Out(1)
        A beat of data.

    References
    ----------
    Arm, "AMBA AXI and ACE Protocol Specification", IHI 0022, part A: AXI4.
    """

    def __init__(self, *, address_width: int, data_bytes: int):
        _check(address_width, data_bytes)
        super().__init__(_read_members(address_width, data_bytes))


class AxiWriteSignature(wiring.Signature):
    """The three write channels of an AXI4 bus, with parameters as of `AxiReadSignature`.

    Members
    -------
    awid, awaddr, awlen, awsize, awburst, awcache, awprot, awvalid, awready : Out, In(1)
        A burst to write.
    wdata, wstrb, wlast, wvalid, wready : Out, In(1)
        A beat of data.
    bid, bresp, bvalid, bready : In, Out(1)
        The response to a burst.
    """

    def __init__(self, *, address_width: int, data_bytes: int):
        _check(address_width, data_bytes)
        super().__init__(_write_members(address_width, data_bytes))


class AxiSignature(wiring.Signature):
    """All five channels of an AXI4 bus: those of `AxiReadSignature` and of `AxiWriteSignature`.

    Members
    -------
    awid, awaddr, awlen, awsize, awburst, awcache, awprot, awvalid, awready : Out, In(1)
    wdata, wstrb, wlast, wvalid, wready : Out, In(1)
    bid, bresp, bvalid, bready : In, Out(1)
    arid, araddr, arlen, arsize, arburst, arcache, arprot, arvalid, arready : Out, In(1)
    rid, rdata, rresp, rlast, rvalid, rready : In, Out(1)
    """

    def __init__(self, *, address_width: int, data_bytes: int):
        _check(address_width, data_bytes)
        super().__init__(
            {
                **_write_members(address_width, data_bytes),
                **_read_members(address_width, data_bytes),
            }
        )
