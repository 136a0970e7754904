"""Check bits beside stored words: up to three flipped bits of a word are found."""

from functools import cache
from itertools import combinations
from math import comb

from amaranth import Cat, Const, Value

from multitree.hw.arguments import check_integer

__all__ = ["check_columns", "check_of", "check_width", "is_intact"]

_WEIGHT = 3
"""Check bits that each bit of a word goes into: an odd number, the least that tells bits apart."""


def check_width(width: int) -> int:
    """Check bits of a word: as few as give each of its bits another three of them.

    Parameters
    ----------
    width : int
        Bits of the word.

    Returns
    -------
    int
        7 for 32 bits, 11 for 131 bits.

    Raises
    ------
    TypeError
        If it is not an integer.
    ValueError
        If it is less than 1.
    """
    check_integer("Width", width, least=1)
    bits = _WEIGHT
    while comb(bits, _WEIGHT) < width:
        bits += 1
    return bits


@cache
def check_columns(width: int) -> tuple[int, ...]:
    """Columns of the check matrix: for each bit of a word the check bits that it goes into.

    All columns, those of the check bits included, are different and have an odd number of ones.
    So the sum of one, two or three of them is never zero: the code has distance 4 (Hsiao). Which
    columns are taken is chosen such that each check bit has about as many bits to add.

    Parameters
    ----------
    width : int
        Bits of the word.

    Returns
    -------
    tuple of int
        A mask of check bits for each bit of the word.

    References
    ----------
    M. Y. Hsiao, "A Class of Optimal Minimum Odd-weight-column SEC-DED Codes", IBM Journal of
    Research and Development 14(4), 1970.
    """
    left = list(combinations(range(check_width(width)), _WEIGHT))
    loads = [0] * check_width(width)
    columns = []
    for _ in range(width):
        chosen = min(left, key=lambda rows: (sorted((loads[k] for k in rows), reverse=True), rows))
        left.remove(chosen)
        for row in chosen:
            loads[row] += 1
        columns.append(sum(1 << row for row in chosen))
    return tuple(columns)


def check_of(word: Value) -> Value:
    """The check bits of a word, a network of exclusive ors; those of zeros are zeros."""
    word = Value.cast(word)
    columns = check_columns(len(word))
    rows = range(check_width(len(word)))
    return Cat(Cat(word[k] for k, c in enumerate(columns) if c >> row & 1).xor() for row in rows)


def is_intact(word: Value, check: Value) -> Value:
    """Whether a word and its check bits are as they were stored, if at most three bits flipped."""
    return (check_of(word) ^ check) == Const(0, check_width(len(Value.cast(word))))
