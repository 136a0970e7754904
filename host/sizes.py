"""Sizes for people: bytes, binary and SI units, read and written."""

import re
from collections.abc import Callable
from functools import partial

from multitree.sim.link_model import LinkModel
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology

__all__ = ["format_size", "paced", "parse_size", "parse_sizes"]

_UNITS = {
    **{"": 1, "b": 1},
    **{"kb": 1000, "mb": 1000_000, "gb": 1000_000_000},
    **{"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30},
}


def parse_size(text: str) -> int:
    """Read one size in bytes, or with kB, MB, GB (powers of 1000), KiB, MiB or GiB behind it.

    Parameters
    ----------
    text : str
        For example "4096", "32KiB" or "1 MB"; capitals do not matter.

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
    >>> parse_size("32KiB"), parse_size("32kB")
    (32768, 32000)
    """
    if "," in text:
        raise ValueError(f"Size must be one, not a list, {text!r}")
    match = re.fullmatch(r"(\d{1,15})\s*([a-zA-Z]*)", text.strip(), flags=re.ASCII)
    if match is None or match[2].lower() not in _UNITS:
        units = "kB, MB, GB, KiB, MiB or GiB"
        raise ValueError(f"Size must be bytes, or a number with {units}, not {text!r}")
    size_bytes = int(match[1]) * _UNITS[match[2].lower()]
    if size_bytes <= 0 or size_bytes % 4:
        raise ValueError(f"Size must be a positive multiple of 4 bytes, not {text!r}")
    return size_bytes


def parse_sizes(text: str) -> list[int]:
    """Read sizes with commas between them, each as `parse_size` reads it.

    Examples
    --------
    >>> parse_sizes("32KiB,1MB")
    [32768, 1000000]
    """
    return [parse_size(each) for each in text.split(",")]


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


def paced(model: LinkModel, size_bytes: int) -> Callable[[Topology], CostModel]:
    """From a topology to the cost model of a buffer of so many bytes, for builders."""
    return partial(model.cost_model, num_flits=model.num_flits(size_bytes, 1))
