"""CRC-32 of data that come in whole words, as a network of exclusive ors."""

from functools import cache, reduce
from operator import xor

import numpy as np
from amaranth import Cat, Const, Module, Signal
from amaranth.hdl import Value, ValueLike

from multitree.hw.check_bits import TABLE_INPUTS, bits_of, sum_of

__all__ = ["CRC32_INIT", "crc32_step"]

CRC32_INIT = 0xFFFFFFFF
"""Register of a CRC-32 before the first byte."""
_PAIRS = 100
"""Pairs of bits, those that most result bits have in common, that sums are grown from."""
_POLYNOMIAL = 0xEDB88320
"""IEEE 802.3, reflected: bit 31 is the coefficient of 1."""


def crc32_step(state: ValueLike, data: ValueLike, *, sums: Module | None = None) -> Value:
    """Register of a CRC-32, 32 bits, after some more whole bytes, the first one lowest;
    combinational.

    With a module `sums`, for synthesis, that gets the sums which several bits of the result have in
    common: half the look-up tables. Without it what each four bits do is looked up as a word: an
    emulator of the interface is 1.4 times as fast. The CRC is the complement of the register.
    """
    state, data = Value.cast(state), Value.cast(data)
    count = len(data)
    if len(state) != 32:
        raise ValueError(f"CRC state must be of 32 bits, not {len(state)!r}")
    if count == 0 or count % 8:
        raise ValueError(f"CRC data must be of whole bytes, not {count!r} bits")
    # The register is linear in itself and the data, so that each bit of the result is the exclusive
    # or of some bits of both, of 136 bits about 60: T. V. Ramabadran, S. S. Gaitonde, "A tutorial
    # on CRC computations", IEEE Micro 8(4), 1988.
    effects = _effects(count)
    # A bit of the register is in effect when it has been shifted to the lowest place, where it
    # meets the bit of the data with the same number.
    if sums is not None:
        # Zeros are left out, so that what is shared does not lean on them.
        used = 32 if isinstance(data, Const) and not data.value else len(effects)
        # Bit by bit: a slice of a sum would be written out with the whole sum each time.
        mixed = bits_of(state), bits_of(data)
        bits = [reduce(xor, (v[k] for v in mixed if k < len(v))) for k in range(used)]
        return _summed(sums, bits, effects[:used])
    return _looked_up((state ^ data)[: max(count, 32)], effects)


@cache
def _effects(count: int) -> tuple[int, ...]:
    """What each bit of the register, mixed with so many bits of data, does to the result."""
    effects, effect = [], _POLYNOMIAL
    for _ in range(count):
        effects.append(effect)
        effect = effect >> 1 ^ (_POLYNOMIAL if effect & 1 else 0)
    effects.reverse()
    # With fewer than 32 bits of data the register's upper bits are not pushed out, only moved down.
    return (*effects, *(1 << (bit - count) for bit in range(count, 32)))


def _looked_up(mixed: Value, effects: tuple[int, ...]) -> Value:
    """The result as a sum of words, one looked up by each four bits."""
    return sum_of(
        _effect_of(mixed[low : low + TABLE_INPUTS], effects[low : low + TABLE_INPUTS])
        for low in range(0, len(mixed), TABLE_INPUTS)
    )


def _effect_of(bits: Value, effects: tuple[int, ...]) -> Value:
    """What a few bits together do to the register, looked up."""
    table = 0
    for number in range(1 << len(bits)):
        word = reduce(xor, (e for bit, e in enumerate(effects) if number >> bit & 1), 0)
        table |= word << 32 * number
    return Const(table, 32 << len(bits)).word_select(bits, 32)


def _summed(m: Module, bits: list[Value], effects: tuple[int, ...]) -> Value:
    """The result as sums of four each, those first that several of its bits have in common."""
    sums, rows = _common_sums(effects)
    for members in sums:
        common = Signal(name="sum_in_common")
        m.d.comb += common.eq(reduce(xor, (bits[k] for k in members)))
        bits.append(common)
    return Cat(sum_of(bits[k] for k in row) for row in rows)


@cache
def _common_sums(effects: tuple[int, ...]) -> tuple[list[list[int]], list[list[int]]]:
    """Sums of up to four bits or earlier sums, and which of all these add up to each result bit.

    Greedy, always the sum next that saves most tables of four inputs: C. Paar, "Optimized
    arithmetic for Reed-Solomon encoders", ISIT 1997.
    """
    # Rows are bits and sums, columns those of the result that they go into.
    matrix = np.array([[effect >> bit & 1 for bit in range(32)] for effect in effects], np.float32)
    counts = np.triu(matrix @ matrix.T, 1).astype(np.int8)
    sums: list[list[int]] = []
    depth = [0] * len(effects)
    while members := _best_sum(matrix, counts, depth):
        common = matrix[members].all(axis=0)
        matrix[members] -= common
        matrix = np.vstack([matrix, common.astype(np.float32)])
        counts = np.pad(counts, (0, 1))
        for k in (*members, len(sums) + len(effects)):
            shared = (matrix @ matrix[k]).astype(np.int8)
            counts[:k, k], counts[k, k + 1 :] = shared[:k], shared[k + 1 :]
        sums.append(members)
        depth.append(1 + max(depth[k] for k in members))
    # What is known last is added last.
    order = sorted(range(len(matrix)), key=lambda k: depth[k])
    return sums, [[k for k in order if matrix[k, bit]] for bit in range(32)]


def _best_sum(matrix: np.ndarray, counts: np.ndarray, depth: list[int]) -> list[int]:
    """Two to four rows whose sum saves most tables, the least deep of these; none if none does.
    `counts` are the ones that each two rows have in common, above its diagonal.
    """
    best: tuple[float, int] = (0.0, 0)
    found: list[int] = []
    least = max(2, int(counts.max()))
    while least > 2 and np.count_nonzero(counts >= least) < _PAIRS:
        least -= 1
    places = np.argwhere(counts >= least)
    order = np.argsort(-counts[tuple(places.T)], kind="stable")[:_PAIRS]
    for place in places[order]:
        members = place.tolist()
        rows = matrix[members].prod(axis=0)
        while (common := int(rows.sum())) >= 2 and len(members) <= TABLE_INPUTS:
            # Each of these bits of the result takes one input in place of all, and it costs one.
            tables = common * (len(members) - 1) / (TABLE_INPUTS - 1) - 1
            saved = tables, -max(depth[k] for k in members)
            if saved > best:
                best, found = saved, sorted(members)
            shared = matrix @ rows
            shared[members] = 0
            members.append(int(shared.argmax()))
            rows = rows * matrix[members[-1]]
    return found
