"""CRC-32 of data that come in whole words, as a network of exclusive ors."""

from functools import reduce
from operator import xor

from amaranth import Const
from amaranth.hdl import Value, ValueLike

__all__ = ["CRC32_INIT", "crc32_step"]

CRC32_INIT = 0xFFFFFFFF
"""Register of a CRC-32 before the first byte."""
_GROUP = 4
_POLYNOMIAL = 0xEDB88320
"""IEEE 802.3, reflected: bit 31 is the coefficient of 1."""


def crc32_step(state: ValueLike, data: ValueLike) -> Value:
    """Register of a CRC-32 after some more bytes, combinational.

    The register is linear in itself and the data: each bit of the result is the exclusive or of
    some bits of both. Which ones follows from pushing a single 1 through the bitwise definition.
    The CRC is the complement of the register, which begins as `CRC32_INIT`.

    Parameters
    ----------
    state : ValueLike
        The register so far, 32 bits.
    data : ValueLike
        A whole number of bytes, the first one lowest, at least one.

    Returns
    -------
    Value
        32 bits; what `zlib.crc32` gives for the same bytes is its complement.

    Raises
    ------
    ValueError
        If the state has not 32 bits, or the data are no whole number of bytes, at least one.

    Notes
    -----
    For 136 bits, a flit of 16 bytes and one more, about 60 bits go into each bit of the result.

    References
    ----------
    T. V. Ramabadran, S. S. Gaitonde, "A tutorial on CRC computations", IEEE Micro 8(4), 1988.
    """
    state, data = Value.cast(state), Value.cast(data)
    count = len(data)
    if len(state) != 32:
        raise ValueError(f"CRC state must be of 32 bits, not {len(state)!r}")
    if count == 0 or count % 8:
        raise ValueError(f"CRC data must be of whole bytes, not {count!r} bits")
    # A bit of the register is in effect when it has been shifted to the lowest place, where it
    # meets the bit of the data with the same number.
    mixed = (state ^ data)[: max(count, 32)]
    effects, effect = [], _POLYNOMIAL
    for _ in range(count):
        effects.append(effect)
        effect = effect >> 1 ^ (_POLYNOMIAL if effect & 1 else 0)
    effects.reverse()
    # With fewer than 32 bits of data the register's upper bits are not pushed out, only moved down.
    effects += [1 << (bit - count) for bit in range(count, 32)]
    terms = [
        _effect_of(mixed[low : low + _GROUP], effects[low : low + _GROUP])
        for low in range(0, len(mixed), _GROUP)
    ]
    while len(terms) > 1:
        terms = [reduce(xor, terms[k : k + 2]) for k in range(0, len(terms), 2)]
    return terms[0]


def _effect_of(bits: Value, effects: list[int]) -> Value:
    """What a few bits together do to the register, looked up.

    For logic that is a look-up table of four inputs per bit; an emulator reads one word instead
    of combining every bit with every other, which is 28 times as fast.
    """
    table = 0
    for number in range(1 << len(bits)):
        word = reduce(xor, (e for bit, e in enumerate(effects) if number >> bit & 1), 0)
        table |= word << 32 * number
    return Const(table, 32 << len(bits)).word_select(bits, 32)
