"""JSON that nobody vouches for: limits on depth and digits, members as they stand."""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from multitree.topology.entries import ContentError, choice, shown
from multitree.topology.file_text import MAX_DEPTH, MAX_DIGITS, place_in

# A string is passed over whole, so that what looks like a mark within it is none.
_MARKS = re.compile(
    rf'"(?:[^"\\]++|\\.)*+"?|[\[{{]|[\]}}]|[0-9]{{{MAX_DIGITS + 1}}}', re.ASCII | re.DOTALL
)


class Members(tuple[tuple[str, Any], ...]):
    """Keys and values of an object in the order of the file, a repeated key repeatedly."""

    def __repr__(self) -> str:
        """As short as a message needs it."""
        return "{...}"


def parse_json(text: str) -> Any:
    """Read JSON text.

    Parameters
    ----------
    text : str

    Returns
    -------
    object
        As `json.loads` has it, but objects are `Members`.

    Raises
    ------
    ContentError
        If it is no JSON, nests deeper than `MAX_DEPTH`, or has a number of more than `MAX_DIGITS`
        digits; with line and column.

    Notes
    -----
    Time and memory are linear in the length of the text.

    Examples
    --------
    >>> parse_json('[1, "a"]'), tuple(parse_json('{"a": 1, "a": 2}'))
    ([1, 'a'], (('a', 1), ('a', 2)))
    """
    _check_marks(text)
    try:
        return json.loads(text, object_pairs_hook=Members)
    except json.JSONDecodeError as error:
        place = place_in(text, error.pos)
        raise ContentError(f"{place} must be JSON, not: {error.msg}") from None


def members_of(
    value: Any,
    schema: str,
    keys: Sequence[str],
    place: str = "",
    *,
    optional: Collection[str] = (),
) -> dict[str, Any]:
    """The values of an object that has each of some keys once, and no other.

    Parameters
    ----------
    value : object
    schema : str
        What the value of the key ``schema`` must be, which says what the other keys mean.
    keys : sequence of str
        All others.
    place : str
        The object's key in the file, if it stands in another object.
    optional : collection of str
        Those of the keys that may be missing.

    Returns
    -------
    dict

    Raises
    ------
    ContentError
        If it is no object, of another schema, or a key is missing, repeated or unknown.

    Examples
    --------
    >>> members_of(parse_json('{"b": 1, "schema": "x.v1"}'), "x.v1", ["b"])
    {'b': 1, 'schema': 'x.v1'}
    """
    name = place or "content"
    if not isinstance(value, Members):
        raise ContentError(f"{name} must be an object, not {shown(value)}")
    choice(f"{place}.schema" if place else "schema", schema_of(value), [schema])
    members: dict[str, Any] = {}
    known = ("schema", *keys)
    for key, member in value:
        if key not in known:
            raise ContentError(f"keys of {name} must be {', '.join(known)}, not {shown(key)}")
        if key in members:
            raise ContentError(f"key {key} of {name} must be there once, not again")
        members[key] = member
    for key in known:
        if key not in members and key not in optional:
            raise ContentError(f"key {key} of {name} must be there, not missing")
    return members


def schema_of(value: Any) -> Any:
    """What an object says that it is: the value of its key ``schema``.

    Parameters
    ----------
    value : object

    Returns
    -------
    object
        None where there is none.
    """
    return dict(value).get("schema") if isinstance(value, Members) else None


def _check_marks(text: str) -> None:
    """Check depth and digits before anything is made of the text."""
    depth = 0
    for mark in _MARKS.finditer(text):
        first = text[mark.start()]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                place = place_in(text, mark.start())
                raise ContentError(f"{place} must be at most {MAX_DEPTH} levels deep, not deeper")
        elif first in "]}":
            depth -= 1
        elif first != '"':
            place = place_in(text, mark.start())
            raise ContentError(f"{place} must be a number of at most {MAX_DIGITS} digits, not more")
