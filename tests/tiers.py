"""Which tests run: samples of parameter sets, or the part of one quarter."""

import os
import zlib
from collections import defaultdict
from pathlib import Path

import pytest

__all__ = ["QUARTERS", "ROTATION", "function_of", "marks", "of_ci", "quarter", "quarter_of"]
__all__ += ["sampled"]

QUARTERS = 4
ROTATION = Path(__file__).with_name("rotation")


def quarter():
    """Number of the quarter that runs: $MULTITREE_QUARTER, else the file's number modulo 4."""
    named = os.environ.get("MULTITREE_QUARTER")
    try:
        number = int(named if named is not None else ROTATION.read_text())
    except ValueError as error:
        place = "MULTITREE_QUARTER" if named is not None else str(ROTATION)
        raise pytest.UsageError(f"{place} must be an integer: {error}") from None
    return number % QUARTERS


def function_of(item):
    """File and function of a test, the same for all its parameter sets."""
    return item.nodeid.partition("[")[0]


def quarter_of(item):
    """The quarter of a test, by its function's name alone: a file that moves changes nothing.

    Where each parameter set is a rule of its own, it has a quarter of its own.
    """
    function, _, parameters = item.nodeid.partition("[")
    name = function.rpartition("::")[2] + parameters * bool(marks(item, "every_set"))
    return zlib.crc32(name.encode()) % QUARTERS


def _grouped(items, key):
    groups = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups.values()


def _spread(sets, most):
    """At most so many: the first, the last, and some between."""
    count = len(sets)
    places = (min(n * count // max(most - 1, 1), count - 1) for n in range(most))
    return [sets[place] for place in sorted({*places})]


def sampled(items, most):
    """At most so many parameter sets of each test, slow ones apart; `every_set` keeps all."""
    kept = set()
    for sets in _grouped(items, lambda item: (function_of(item), bool(marks(item, "slow")))):
        kept.update(sets if marks(sets[0], "every_set") else _spread(sets, most))
    return [item for item in items if item in kept]


def of_ci(items, number, changed):
    """What continuous integration runs: see tests/conftest.py.

    `changed(path)` says whether what a test file imports or starts has changed.
    """
    dear = [item for item in items if marks(item, "dear") and not marks(item, "long")]
    always = {sets[0] for sets in _grouped(dear, function_of)}
    always.update(item for item in dear if changed(item.path))
    return [
        item
        for item in items
        if item in always or not marks(item, "dear", "long") or quarter_of(item) == number
    ]


def marks(item, *names):
    """Those of the marks that a test has."""
    return {mark.name for mark in item.iter_markers()} & {*names}
