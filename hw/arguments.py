"""Checks of the plain integers that hardware blocks take."""

__all__ = ["check_integer"]


def check_integer(thing: str, value: object, *, least: int, most: int | None = None) -> int:
    """Return `value` if it is an integer in a range, else raise an error that names it.

    Parameters
    ----------
    thing : str
        What the value is, the first word of the message: "Depth", "Flit bytes".
    value : object
        The value.
    least, most : int
        Smallest and largest legal value; no largest where `most` is None.

    Raises
    ------
    TypeError
        If `value` is not an integer.
    ValueError
        If it is out of range.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{thing} must be an integer, not {value!r}")
    if most is None and value < least:
        raise ValueError(f"{thing} must be at least {least}, not {value!r}")
    if most is not None and not least <= value <= most:
        raise ValueError(f"{thing} must be from {least} to {most}, not {value!r}")
    return value
