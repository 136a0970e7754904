"""What a sweep runs: every combination of the values in a YAML file."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from multitree.host.evaluation.point import Point, SweepError
from multitree.host.parameters import SCALED, Parameter, scale_of, swept_parameters
from multitree.host.sizes import parse_size
from multitree.host.work import OPS
from multitree.nic.driver.config import LIMITS
from multitree.sim.timing.link_model import problem_with
from multitree.topology.collectives import DTYPES
from multitree.topology.errors import (
    ContentError,
    choice,
    integer,
    label,
    not_one_of,
    positive,
    shown,
)
from multitree.topology.file_io import naming, read_text

__all__ = ["MAX_POINTS", "Entries", "Grid", "Places", "grid_of", "read_entries", "read_grid"]

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


MAX_POINTS = 100_000
REQUIRED = ("topology", "algorithm", "size", "engine")
_MOST_CHARACTERS = 4096
_MOST = 2**62
"""Of a seed: columns of files have 64 bits."""
_MOST_BYTES = 2**40
"""With all other limits, cycles then have fewer than 63 bits."""

Check = Callable[[str, Any], Any]
"""From a place and a value to the value of a `Point`, or a ContentError."""


@dataclass(frozen=True)
class Grid:
    """Every combination of some values by the field of `Point`; the last field varies fastest.

    Its name in messages is the file's path, and its folder is where files of topologies are.
    """

    name: str
    folder: Path
    values: Mapping[str, tuple[Any, ...]]

    @property
    def num_points(self) -> int:
        """How many combinations there are."""
        return math.prod(map(len, self.values.values()))

    def points(self) -> list[Point]:
        """All combinations, in order."""
        combined = product(*self.values.values())
        return [Point(**dict(zip(self.values, each, strict=True))) for each in combined]


def read_grid(path: str | Path) -> Grid:
    """The grid of a sweep file in YAML; a SweepError names the place and the rule."""
    with naming(str(path), SweepError):
        entries, places = read_entries(str(path))
        return _grid(str(path), Path(path).absolute().parent, entries, places)


def grid_of(entries: Mapping[str, Any]) -> Grid:
    """The grid of values, or lists of them, by key: an option of `multitree simulate`, or topology.

    A SweepError names a key that is unknown or missing, or a value that is wrong or repeated.
    """
    if not isinstance(entries, Mapping):
        raise TypeError(f"Sweep must be a mapping or the path of a file, not {entries!r}")
    with naming("sweep", SweepError):
        return _grid("sweep", Path.cwd(), entries, {})


def _grid(name: str, folder: Path, entries: Mapping[str, Any], places: Places) -> Grid:
    for key in entries:
        if key not in _CHECKS:
            at = f"{places[key]}: " if key in places else ""
            raise ContentError(at + not_one_of("key", key, _CHECKS))
    for key in REQUIRED:
        if key not in entries:
            raise ContentError(f"{key} must be there")
    values = {}
    named = {key: f"{places[key]}: {key}" if key in places else key for key in entries}
    for key, given in entries.items():
        values[swept_parameters()[key].key] = _checked(named[key], given, _CHECKS[key])
    dtypes = values.get("dtype", (Point.dtype,))
    _check_whole_elements(named["size"], values["size_bytes"], dtypes)
    grid = Grid(name, folder, values)
    if grid.num_points > MAX_POINTS:
        raise ContentError(f"points must be at most {MAX_POINTS}, not {grid.num_points}")
    return grid


def _check_whole_elements(place: str, sizes: Sequence[int], dtypes: Sequence[str]) -> None:
    """Raise a ContentError unless every size has whole elements of every type."""
    for dtype, size_bytes in product(dtypes, sizes):
        if size_bytes % DTYPES[dtype].itemsize:
            each = f"{DTYPES[dtype].itemsize} bytes with {dtype}"
            raise ContentError(f"{place} must be a multiple of {each}, not {size_bytes}")


def _checked(place: str, given: Any, check: Check) -> tuple[Any, ...]:
    """The values of a key, each once."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        return (check(place, given),)
    if not given:
        raise ContentError(f"{place} must have at least one value, not an empty list")
    values: dict[Any, Any] = {}
    for index, each in enumerate(given):
        value = check(f"{place}[{index}]", each)
        if value in values:
            raise ContentError(f"{place} must have each value once, not {shown(each)} again")
        values[value] = each
    return tuple(values)


def _size(place: str, value: Any) -> int:
    size_bytes = value
    if isinstance(value, str):
        try:
            size_bytes = parse_size(value, "bfloat16")
        except ValueError as error:
            raise ContentError(f"{place}: {error}") from None
    return integer(place, size_bytes, 2, _MOST_BYTES)


def _op(place: str, value: Any) -> str:
    return OPS[choice(place, value, tuple(OPS))]


def _truth(place: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ContentError(f"{place} must be true or false, not {shown(value)}")
    return value


def _built(name: str, place: str, value: Any) -> int:
    """A size that interfaces are built with."""
    size = integer(place, value, 0, _MOST)
    problem = problem_with(name, size)
    if problem is not None:
        raise ContentError(f"{place} {problem}")
    return size


def _number(row: Parameter, place: str, value: Any) -> float:
    number = positive(place, value)
    if (problem := row.problem_with(number)) is not None:
        raise ContentError(f"{place} {problem}")
    return number


def _scale(name: str, place: str, value: Any) -> float | str:
    """A positive number within the range, or a factor such as "x2"."""
    if not isinstance(value, str):
        positive(place, value)
    try:
        return scale_of(name, value)
    except ValueError as error:
        raise ContentError(f"{place} {error}") from None


def _check_of(row: Parameter) -> Check:
    """The check of a parameter's values by its row in the table."""
    if row.choices:
        return lambda place, value: choice(place, value, row.choices)
    if row.name in LIMITS:
        return partial(_built, row.name)
    if isinstance(row.default, bool):
        return _truth
    if row.range is None:
        return lambda place, value: label(place, value, _MOST_CHARACTERS)
    least, most = row.range
    if isinstance(least, int):
        return lambda place, value: integer(place, value, least, int(most))
    return partial(_number, row)


def _or_none(check: Check) -> Check:
    """A check that null passes, which stands for what is taken without the key."""
    return lambda place, value: None if value is None else check(place, value)


_SPECIAL: dict[str, Check] = {"size": _size, "op": _op}
_SPECIAL |= {name: partial(_scale, name) for name in SCALED}
_CHECKS = {
    key: check if key in REQUIRED or row.default is not None else _or_none(check)
    for key, row in swept_parameters().items()
    for check in [_SPECIAL.get(key) or _check_of(row)]
}
