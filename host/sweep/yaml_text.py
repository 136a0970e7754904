"""Text of a sweep file: YAML with one level of keys, and the place of each."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from multitree.topology.errors import ContentError, shown
from multitree.topology.file_io import read_text

__all__ = ["Entries", "Places", "read_entries"]

MAX_CHARACTERS = 1 << 20

Entries = dict[str, Any]
"""Values by key: scalars, or lists of scalars."""
Places = dict[str, str]
"""Where each key stands, such as "line 3, column 1"."""

# Words and numbers as in YAML 1.2, in which "no" is a text and 010 no octal number.
_WORDS = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,30})")
_NUMBER = re.compile(
    r"[-+]?([0-9]{1,30}\.[0-9]{0,30}|\.[0-9]{1,30}|[0-9]{1,30}(?=[eE]))([eE][-+]?[0-9]{1,3})?"
)


def read_entries(path: str) -> tuple[Entries, Places]:
    """Entries of a file of keys with a value or a list each, in its order, and places of the keys.

    ContentError says where it cannot be read, is no YAML, or has a key twice or no such content.
    """
    text = read_text(path)
    if len(text) > MAX_CHARACTERS:
        raise ContentError(f"file must be at most {MAX_CHARACTERS} characters, not {len(text)}")
    try:
        return _Reader(text).document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f"{_place(mark)}: "
        reason = getattr(error, "problem", None) or str(error)
        raise ContentError(f"{place}file must be YAML, but {' '.join(reason.split())}") from None


class _Reader:
    """Goes through the events of YAML's parser; nothing is constructed but scalars and lists."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=yaml.SafeLoader)

    def document(self) -> tuple[Entries, Places]:
        next(self._events)  # the start of the stream
        if isinstance(event := next(self._events), yaml.StreamEndEvent):
            raise ContentError("file must have keys with values, not nothing")
        self._expect(next(self._events), yaml.MappingStartEvent, "file must be keys with values")
        entries: Entries = {}
        places: Places = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            self._expect(event, yaml.ScalarEvent, "a key must be a word")
            key, place = event.value, _place(event.start_mark)
            if key in entries:
                raise ContentError(f"{place}: {shown(key)} must stand once, not also {places[key]}")
            places[key] = place
            entries[key] = self._value(key)
        next(self._events)  # the end of the document
        if not isinstance(event := next(self._events), yaml.StreamEndEvent):
            raise ContentError(f"{_place(event.start_mark)}: file must be one document, not more")
        return entries, places

    def _value(self, key: str) -> Any:
        rule = f"{shown(key)} must have a value or a list of values"
        event = next(self._events)
        if not isinstance(event, yaml.SequenceStartEvent):
            self._expect(event, yaml.ScalarEvent, rule)
            return _scalar(event)
        self._expect(event, yaml.SequenceStartEvent, rule)
        values = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            self._expect(event, yaml.ScalarEvent, rule)
            values.append(_scalar(event))
        return values

    def _expect(self, event: Any, kind: type[Any], rule: str) -> None:
        """Raise unless an event is of a kind, without an anchor, an alias or a tag."""
        place = _place(event.start_mark)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ContentError(f"{place}: file must be without anchors and aliases")
        if getattr(event, "tag", None) is not None:
            raise ContentError(f"{place}: file must be without tags, not {shown(event.tag)}")
        if not isinstance(event, kind):
            raise ContentError(f"{place}: {rule}, not {_KINDS[type(event)]}")


_KINDS = {
    yaml.ScalarEvent: "a single value",
    yaml.SequenceStartEvent: "a list",
    yaml.MappingStartEvent: "keys with values",
}


def _scalar(event: Any) -> Any:
    """The value of a scalar; what is quoted is text."""
    text: str = event.value
    if event.style is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"
