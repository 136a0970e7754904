"""CRC-32 as a network of exclusive-ors, for a whole number of bytes at a time."""

import functools

from amaranth import Cat, Value

__all__ = ["CRC32_INIT", "crc32_step"]

CRC32_INIT = 0xFFFFFFFF
"""State before the first byte; the CRC is the complement of the state after the last."""

_POLYNOMIAL = 0xEDB88320


def crc32_step(state: Value, data: Value) -> Value:
    """Next state of a CRC-32 (IEEE 802.3, as `zlib.crc32`) that takes `data` in one step.

    Data go in byte by byte from the least significant, and bits within a byte likewise. Each bit
    of the result is an exclusive-or of bits of state and data: linearity tells which, by one run
    of the serial register per bit.

    Parameters
    ----------
    state : Value, 32 bits
        State so far, `CRC32_INIT` at first; without the final complement.
    data : Value
        A whole number of bytes.

    Returns
    -------
    Value, 32 bits
        Combinational; about `16 + len(data) / 2` terms per bit.

    Raises
    ------
    ValueError
        If the state has not 32 bits, or the data are no whole number of bytes, at least one.

    References
    ----------
    IEEE Std 802.3, clause 3.2.9.
    """
    if len(state) != 32:
        raise ValueError(f"CRC state must be of 32 bits, not {len(state)!r}")
    if not len(data) or len(data) % 8:
        raise ValueError(f"CRC data must be of whole bytes, not {len(data)!r} bits")
    inputs = [*state, *data]
    effects = [_serial(1 << k, len(data)) for k in range(len(inputs))]
    rows = [
        functools.reduce(
            lambda a, b: a ^ b,
            [bit for bit, effect in zip(inputs, effects, strict=True) if effect >> out & 1],
        )
        for out in range(32)
    ]
    return Cat(*rows)


def _serial(word: int, num_bits: int) -> int:
    """State after `num_bits` of data that stand above the state in `word`, bit by bit."""
    state, data = word & 0xFFFFFFFF, word >> 32
    for k in range(num_bits):
        lowest = (state ^ data >> k) & 1
        state = state >> 1 ^ (_POLYNOMIAL if lowest else 0)
    return state
