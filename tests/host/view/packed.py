"""Reads what a page holds, as its script does."""

import base64
import json
import re
import zlib

import numpy as np


def unpacked(data):
    """Header and columns of what `columns.packed` made."""
    raw = zlib.decompress(data)
    length = int.from_bytes(raw[:4], "little")
    header, at, columns = json.loads(raw[4 : 4 + length]), 4 + length, {}
    for name, count, planes in header["columns"]:
        folded = np.zeros(count, np.int64)
        for plane in range(planes):
            folded += np.frombuffer(raw, np.uint8, count, at).astype(np.int64) << 8 * plane
            at += count
        columns[name] = np.cumsum(np.where(folded % 2, -(folded + 1) // 2, folded // 2))
    assert at == len(raw)
    return header, columns


def data_of(page):
    """Header and columns of a page."""
    (text,) = re.findall(r'<script type="text/plain" id="data">([^<]*)</script>', page)
    return unpacked(base64.b64decode(text, validate=True))
