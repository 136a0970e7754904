"""Sizes for people: bytes, KiB, MiB and GiB, read and written."""

import re
from collections.abc import Callable
from functools import partial

from multitree.sim.link_model import LinkModel
from multitree.topology.pace import Pace
from multitree.topology.topology import Topology

__all__ = ["format_size", "paced", "parse_size"]

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def parse_size(text: str) -> int:
    """Read a size in bytes, or with KiB, MiB or GiB behind it.

    Parameters
    ----------
    text : str
        For example "4096", "32KiB" or "1 MiB".

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    ValueError
        If the text is no such size, or not a positive multiple of 4 bytes, the size of an element.

    Examples
    --------
    >>> parse_size("32KiB")
    32768
    """
    match = re.fullmatch(r"(\d{1,15})\s*([a-zA-Z]*)", text.strip(), flags=re.ASCII)
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError(f"Size must be bytes, or a number with KiB, MiB or GiB, not {text!r}")
    size_bytes = int(match[1]) * _UNITS[match[2].upper()]
    if size_bytes <= 0 or size_bytes % 4:
        raise ValueError(f"Size must be a positive multiple of 4 bytes, not {text!r}")
    return size_bytes


def format_size(size_bytes: int) -> str:
    """Write a size with the largest unit that divides it.

    Examples
    --------
    >>> format_size(32768)
    '32 KiB'
    """
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= scale and size_bytes % scale == 0:
            return f"{size_bytes // scale} {unit}"
    return f"{size_bytes} bytes"


def paced(model: LinkModel, size_bytes: int) -> Callable[[Topology], Pace]:
    """What tells builders, by the topology, the pace of a buffer of so many bytes."""
    return partial(model.pace, num_flits=model.num_flits(size_bytes, 1))
