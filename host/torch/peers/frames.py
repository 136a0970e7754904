"""Frames that ranks exchange: a header of fixed length, and what may follow it."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

__all__ = [
    "COLLECTIVE_NAMES",
    "DEVICES",
    "DTYPE_NAMES",
    "HEADER_BYTES",
    "LARGEST_TAG",
    "Fingerprint",
    "Frame",
    "FrameKind",
    "GroupProtocolError",
]

_HEADER = struct.Struct("<2sBBiqqq24s")
_FINGERPRINT = struct.Struct("<BBBBiq8s")
_MAGIC = b"MT"
HEADER_BYTES = _HEADER.size

LARGEST_TAG = 2**31 - 1
"""Largest tag of a message of gloo; counts of messages are taken modulo what follows it."""

DEVICES = ("cpu", "cuda")
COLLECTIVE_NAMES = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "broadcast",
    "reduce",
    "barrier",
    "gather",
    "scatter",
    "all_to_all",
    "send",
    "recv",
)
_OPERATOR_NAMES = (
    "none",
    "sum",
    "average",
    "product",
    "min",
    "max",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
)
# Ranks agree on places here, so that new types are appended; one that is not here is the last.
DTYPE_NAMES = (
    *("float32", "int32", "bfloat16", "float64", "float16", "int64", "int16", "int8", "uint8"),
    *("bool", "complex64", "complex128", "complex32", "uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float4_e2m1fn_x2", "quint8", "qint8", "qint32", "quint4x2", "quint2x4"),
    *("bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"),
    *(f"{kind}{bits}" for kind in ("uint", "int") for bits in range(1, 8)),
    "other",
)


class GroupProtocolError(RuntimeError):
    """What came in on a connection is no frame of this protocol."""


class FrameKind(IntEnum):
    """What a frame says."""

    READY = 0
    """A row was executed: the chunk lies in shared memory, or is sent by gloo."""
    EAGER = 1
    """A short message; its payload follows."""
    REQUEST = 2
    """A long message wants to be sent."""
    CLEAR = 3
    """The receiver of a long message has memory for it."""
    DATA = 4
    """Payload of a long message follows."""
    MEMORY = 5
    """The sender's shared memory; its descriptor is attached."""
    AWAIT = 6
    """The receiver is asked to answer once it has done so many rounds of collectives."""
    DONE = 7
    """The answer to AWAIT."""
    ASK = 8
    """The receiver is asked what it is doing."""
    STATUS = 9
    """The answer to ASK, as JSON."""
    FAILED = 10
    """The group has failed; the failure record follows as JSON."""
    LEAVE = 11
    """The sender leaves the group on purpose: it begins nothing more."""
    WITHDRAWN = 12
    """A long message that was announced will not be sent."""
    PLACED = 13
    """A long message lies in the sender's shared memory."""


class Fingerprint(NamedTuple):
    """What a collective is, in 24 bytes: all ranks must agree before any data move."""

    collective: str  # one of `COLLECTIVE_NAMES`
    dtype: str  # one of `DTYPE_NAMES`
    operator: str  # one of `OPERATORS`, or "none"
    root: int  # rank in the group; -1 without one
    num_elements: int  # of one rank's whole buffer
    schedule: bytes  # first 8 bytes of the schedule's hash; zeros without a schedule
    device: str = "cpu"  # one of `DEVICES`, on which it runs: transports differ

    def packed(self) -> bytes:
        """The fingerprint as 24 bytes."""
        return _FINGERPRINT.pack(
            COLLECTIVE_NAMES.index(self.collective),
            DTYPE_NAMES.index(self.dtype),
            _OPERATOR_NAMES.index(self.operator),
            DEVICES.index(self.device),
            self.root,
            self.num_elements,
            self.schedule,
        )

    @classmethod
    def unpacked(cls, packed: bytes) -> "Fingerprint":
        """The inverse of `packed`."""
        collective, dtype, operator, device, root, num_elements, schedule = _FINGERPRINT.unpack(
            packed
        )
        return cls(
            COLLECTIVE_NAMES[collective],
            DTYPE_NAMES[dtype],
            _OPERATOR_NAMES[operator],
            root,
            num_elements,
            schedule,
            DEVICES[device],
        )


NO_FINGERPRINT = bytes(_FINGERPRINT.size)


@dataclass(slots=True)
class Frame:
    """A frame without its payload: a header of `HEADER_BYTES` bytes."""

    kind: int
    channel: int = 0  # 0 for messages of users, 1 for those of collectives; of a READY its op
    index: int = 0  # flow of a READY; number of a long message
    sequence: int = 0  # number of the collective, or the tag of a message
    offset: int = 0  # of a READY, its round, and where its chunk lies at the rank `length`;
    # of a PLACED, where the message lies
    # bytes of payload that follow; of a REQUEST, that will follow DATA; of a READY, the rank in
    # whose memory the chunk lies
    length: int = 0
    fingerprint: bytes = NO_FINGERPRINT

    def packed(self) -> bytes:
        """The frame as `HEADER_BYTES` bytes."""
        return _HEADER.pack(
            _MAGIC,
            self.kind,
            self.channel,
            self.index,
            self.sequence,
            self.offset,
            self.length,
            self.fingerprint,
        )

    @classmethod
    def unpacked(cls, header: bytes | bytearray | memoryview) -> "Frame":
        """The inverse of `packed`; GroupProtocolError if it is not the header of a frame."""
        magic, *values = _HEADER.unpack(header)
        if magic != _MAGIC:
            raise GroupProtocolError(f"Frame must begin with {_MAGIC!r}, not {magic!r}")
        return cls(*values)

    @property
    def payload_bytes(self) -> int:
        """Bytes that follow the header on the connection."""
        return self.length if self.kind in _WITH_PAYLOAD else 0


_WITH_PAYLOAD = {FrameKind.EAGER, FrameKind.DATA, FrameKind.STATUS, FrameKind.FAILED}
