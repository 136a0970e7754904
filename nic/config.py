"""Every size of one network interface, in one frozen object."""

from dataclasses import dataclass, fields

__all__ = ["Config"]

_LIMITS = {
    "num_ports": (1, 8),
    "flit_bytes": (8, 64),
    "table_depth": (2, 65536),
    "num_flows": (1, 4096),
    "buffer_flits": (4, 65536),
    "submessage_flits": (2, 1024),
    "memory_queue_flits": (4, 1024),
    "address_width": (4, 32),
}


@dataclass(frozen=True)
class Config:
    """Sizes of a network interface; everything that changes its Verilog.

    The defaults are the paper's parameters: 16-byte flits and sub-messages of 256 bytes, with a
    link buffer that covers 150-cycle links.

    Parameters
    ----------
    num_ports : int
        Link ports, each one flit per cycle in and out (1..8).
    flit_bytes : int
        Payload of a flit in bytes, a power of two (8..64): a head has to fit.
    table_depth : int
        Rows of the schedule table.
    num_flows : int
        Entries of the flow memory.
    buffer_flits : int
        Link buffer of a port in flits: twice the link latency, one sub-message, and the time a
        sibling waits for the one before it, or the link cannot be kept busy. A smaller one is
        legal and slower.
    submessage_flits : int
        Granularity in flits at which arrivals are counted, a power of two.
    memory_queue_flits : int
        Flits that one channel may have in flight in memory; at least the memory's round trip in
        cycles, or the port cannot run at line rate.
    address_width : int
        Bits of a memory address; addresses count flits.

    Raises
    ------
    TypeError, ValueError
        If a size is no int, out of its range, or has to be a power of two and is not.
    """

    num_ports: int = 4
    flit_bytes: int = 16
    table_depth: int = 256
    num_flows: int = 128
    buffer_flits: int = 512
    submessage_flits: int = 16
    memory_queue_flits: int = 64
    address_width: int = 24

    def __post_init__(self) -> None:
        """Check every field against its range."""
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = _LIMITS[field.name]
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"Config {field.name} must be an int, not {value!r}")
            if not low <= value <= high:
                raise ValueError(f"Config {field.name} must be in {low}..{high}, not {value!r}")
        for name in ("flit_bytes", "submessage_flits"):
            value = getattr(self, name)
            if value & (value - 1):
                raise ValueError(f"Config {name} must be a power of two, not {value!r}")

    @property
    def count_width(self) -> int:
        """Bits of a count of sub-messages of one flow: the whole address range fits."""
        return max(self.address_width - (self.submessage_flits.bit_length() - 1), 0) + 1
