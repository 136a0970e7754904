"""Sizes for people: bytes, binary and SI units, read and written."""

import re
from collections.abc import Callable, Hashable, Sequence
from functools import partial

from multitree.sim.timing.link_model import LinkModel
from multitree.topology.collectives import DTYPES
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology

__all__ = ["check_once", "cost_model_for", "format_size", "listed", "parse_size", "parse_sizes"]

_UNITS = {
    **{"": 1, "b": 1},
    **{"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12},
    **{"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40},
}
_MOST_DIGITS = 15


def parse_size(text: str, dtype: str = "float32") -> int:
    """Bytes of a size, plain or with kB to TB (powers of 1000) or KiB to TiB behind it.

    ValueError if it is no positive multiple of an element's bytes.
    """
    if "," in text:
        raise ValueError(f"Size must be one, not a list, {text!r}")
    match = re.fullmatch(r"(\d+)\s*([a-zA-Z]*)", text.strip(), flags=re.ASCII)
    if match is None or match[2].lower() not in _UNITS:
        units = "kB, MB, GB, TB, KiB, MiB, GiB or TiB"
        raise ValueError(f"Size must be bytes, or a number with {units}, not {text!r}")
    if len(match[1]) > _MOST_DIGITS:
        raise ValueError(f"Size must have at most {_MOST_DIGITS} digits, not {len(match[1])}")
    size_bytes = int(match[1]) * _UNITS[match[2].lower()]
    element_bytes = DTYPES[dtype].itemsize
    if size_bytes <= 0 or size_bytes % element_bytes:
        raise ValueError(f"Size must be a positive multiple of {element_bytes} bytes, not {text!r}")
    return size_bytes


def parse_sizes(text: str, dtype: str = "float32") -> list[int]:
    """Read sizes with commas between them, each once in whatever unit; errors as `parse_size`.

    >>> parse_sizes("32KiB,1MB")
    [32768, 1000000]
    """
    texts = listed(text)
    sizes = [parse_size(each, dtype) for each in texts]
    check_once("Sizes", sizes, texts)
    return sizes


def listed(text: str) -> list[str]:
    """Entries with commas between them, without blanks around any.

    >>> listed("ring, multitree")
    ['ring', 'multitree']
    """
    return [entry.strip() for entry in text.split(",")]


def check_once(what: str, values: Sequence[Hashable], texts: Sequence[str]) -> None:
    """Raise ValueError where a value is there twice: it would be run or printed twice."""
    seen: set[Hashable] = set()
    for value, text in zip(values, texts, strict=True):
        if value in seen:
            raise ValueError(f"{what} must be there once each, not {text.strip()!r} again")
        seen.add(value)


def format_size(size_bytes: int) -> str:
    """Write a size with the largest unit that divides it, such as 32 KiB."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= scale and size_bytes % scale == 0:
            return f"{size_bytes // scale} {unit}"
    return f"{size_bytes} bytes"


def cost_model_for(model: LinkModel, size_bytes: int) -> Callable[[Topology], CostModel]:
    """From a topology to the cost model of a buffer of so many bytes, for builders."""
    return partial(model.cost_model, num_flits=model.num_flits(size_bytes, 1))
