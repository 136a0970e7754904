"""Columns of integers as few bytes, which a page can read without a library."""

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["packed"]

IntArray = npt.NDArray[np.int64]


def packed(header: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """A JSON header and integer columns of less than 2^52 in magnitude, compressed by zlib.

    Inside: the header's length in 4 bytes, least significant first; the header, with name, length
    and planes of each column; the planes. A column holds differences d of entries, as 2d or
    -2d - 1; plane p has byte p of each.
    """
    # Rows and cycles go up evenly: differences are few and small, and deflate finds them again.
    planes = {name: _planes(np.asarray(values).ravel()) for name, values in columns.items()}
    listed = [[name, int(np.size(columns[name])), len(each)] for name, each in planes.items()]
    text = json.dumps({**header, "columns": listed}, allow_nan=False, separators=(",", ":"))
    start = text.encode()
    pieces = [len(start).to_bytes(4, "little"), start]
    pieces += (plane for each in planes.values() for plane in each)
    return zlib.compress(b"".join(pieces), 9)


def _planes(values: npt.NDArray[Any]) -> list[bytes]:
    """The bytes of a column's differences, those of equal weight together."""
    difference = np.diff(values.astype(np.int64), prepend=0)
    folded = np.where(difference >= 0, 2 * difference, -2 * difference - 1)
    count = -(-int(folded.max(initial=0)).bit_length() // 8)
    return [(folded >> 8 * place & 255).astype(np.uint8).tobytes() for place in range(count)]
