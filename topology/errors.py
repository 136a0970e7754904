"""What goes wrong with a topology or a schedule, as errors of their own."""

from typing import Any


class TopologyError(ValueError):
    """A topology that cannot be: a wrong id, an unreachable node, an unreadable file."""


class TopologyWarning(UserWarning):
    """Something about a topology that was given and is not taken; the message names it."""


class ScheduleError(ValueError):
    """A schedule that cannot be built or is wrong; the message names row, flow and step."""


def check_type(thing: str, value: Any, kind: type) -> None:
    """Refuse a value of another class.

    Parameters
    ----------
    thing : str
        What an error calls it, with a capital first letter.
    value
    kind : type

    Raises
    ------
    TypeError
        If it is no instance of that class.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{thing} must be of class {kind.__name__}, not {type(value).__name__}")
