"""Codes, sizes, depths and errors of blocks for software that has no Amaranth."""

import enum
import os
from functools import cache
from itertools import combinations
from math import comb

__all__ = [
    "AHEAD_FLITS",
    "CHECK_WIDTH",
    "FETCHED_ROWS",
    "FOUND_CHUNKS",
    "HOP_WIDTH",
    "LATE_MESSAGES",
    "LEAST_STAGES",
    "MOST_STAGES",
    "NO_INLINE",
    "PERIOD_CYCLES",
    "PORT_WIDTH",
    "QUEUED_HEADS",
    "QUEUED_JOBS",
    "QUEUED_WRITES",
    "SEQUENCE_WIDTH",
    "STALE_FLITS",
    "DType",
    "Kind",
    "VerilogError",
    "check_columns",
    "check_integer",
    "check_width",
    "chosen_yosys",
    "flit_fields",
    "vc_width",
]


class Kind(enum.IntEnum):
    """Place of a flit in its message, or what a control flit says."""

    HEAD = 0
    BODY = 1
    TAIL = 2
    SINGLE = 3
    # From here on control flits: blocks tell them from data by bit 2 of the kind.
    DOWN = 4
    INIT = 5
    UP = 6
    FAULT = 7


class DType(enum.IntEnum):
    """Type of a flit's lanes."""

    INT32 = 0
    FP32 = 1
    BF16 = 2


LEAST_STAGES, MOST_STAGES = 4, 6
"""Cycles that an addition may take."""
PERIOD_CYCLES = 16
"""From one control flit of a link that is not up to the next."""
PORT_WIDTH = 5
"""Bits of a switch's output port in a hop."""
HOP_WIDTH = PORT_WIDTH + 1
"""Bits of a hop of a route: output port, then virtual-channel class."""
# Over shared links one head is looked up at a time; with forwarding four, of 4 cycles each.
AHEAD_FLITS = 16
"""Flits of a receiver's queue, which wait while heads are looked up."""
QUEUED_HEADS = 4
"""Heads behind those flits where flits are forwarded."""
FETCHED_ROWS = 8
"""Rows between their address and their port: 7 cycles of pipeline and queue."""
QUEUED_JOBS = 4
"""Jobs of a chunk source."""
FOUND_CHUNKS = 3
"""Chunks that are found and wait for their reads."""
STALE_FLITS = 8
"""Flits that may be put between a position that is looked at and the read that it permits."""
QUEUED_WRITES = 16
"""Messages whose writes may have to follow others."""
LATE_MESSAGES = 8
"""Messages that may be in before they keep the next claim from being judged."""
CHECK_WIDTH = 32
"""Bits of a flit's CRC."""
SEQUENCE_WIDTH = 3
"""Bits of the number that counts flits on a link."""
_KIND_WIDTH = 3
_WEIGHT = 3
"""Check bits that each bit of a word goes into; odd, the least with which any two differ."""
NO_INLINE = "/*verilator no_inline_module*/"
"""What marks a module that Verilator is to compile once for all its instances."""


def vc_width(num_vcs: int) -> int:
    """Bits of a virtual channel's number; one bit where there is only one channel."""
    return max(1, (num_vcs - 1).bit_length())


def flit_fields(*, flit_bytes: int, num_vcs: int = 1) -> dict[str, int]:
    """Bits of all that travels with a flit, payload included, by name."""
    return {
        "kind": _KIND_WIDTH,
        "vc": vc_width(num_vcs),
        "sequence": SEQUENCE_WIDTH,
        "epoch": 1,
        "check": CHECK_WIDTH,
        "payload": 8 * flit_bytes,
    }


def check_integer(thing: str, value: object, *, least: int, most: int | None = None) -> int:
    """Return `value` if it is an integer from `least` to `most`, else raise an error that begins
    with `thing`, such as "Depth".
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{thing} must be an integer, not {value!r}")
    if most is None and value < least:
        raise ValueError(f"{thing} must be at least {least}, not {value!r}")
    if most is not None and not least <= value <= most:
        raise ValueError(f"{thing} must be from {least} to {most}, not {value!r}")
    return value


def check_width(width: int) -> int:
    """Check bits of a word, such as 7 for 32 bits and 11 for 131: as few as give each of its bits
    another three of them.
    """
    check_integer("Width", width, least=1)
    bits = _WEIGHT
    while comb(bits, _WEIGHT) < width:
        bits += 1
    return bits


@cache
def check_columns(width: int) -> tuple[int, ...]:
    """Columns of the check matrix: for each bit of a word a mask of the check bits that it goes
    into.

    All columns are different and have an odd number of ones, so that no sum of up to three is zero:
    the code has distance 4 (M. Y. Hsiao, "A Class of Optimal Minimum Odd-weight-column SEC-DED
    Codes", IBM Journal of Research and Development 14(4), 1970).
    """
    left = list(combinations(range(check_width(width)), _WEIGHT))
    loads = [0] * check_width(width)
    columns = []
    for _ in range(width):
        # Such that each check bit has about as many bits to add.
        chosen = min(left, key=lambda rows: (sorted((loads[k] for k in rows), reverse=True), rows))
        left.remove(chosen)
        for row in chosen:
            loads[row] += 1
        columns.append(sum(1 << row for row in chosen))
    return tuple(columns)


def chosen_yosys() -> str:
    """Which Yosys Amaranth converts with, by AMARANTH_USE_YOSYS: the one installed with it, always
    of the same version, unless the user asks for another.
    """
    return os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")


class VerilogError(RuntimeError):
    """The tool that writes Verilog failed; the message is the last line of what it said."""
