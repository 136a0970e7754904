"""Names of nodes: what users call ranks and switches, next to their numbers."""

from collections.abc import Iterable, Sequence
from typing import Any

from multitree.topology.errors import TopologyError

__all__ = ["MAX_NAME", "checked_names", "label_of", "names_at", "names_of", "names_or_none"]

MAX_NAME = 200
"""Characters of a name."""


def checked_names(names: Any, num_nodes: int) -> tuple[str, ...] | None:
    """The names of all nodes; None where there are none.

    Parameters
    ----------
    names : sequence of str, or None
    num_nodes : int

    Raises
    ------
    TopologyError
        If they are not as many, a name cannot be printed as it is, or two are the same.
    """
    if names is None:
        return None
    given = tuple(names)
    if len(given) != num_nodes:
        raise TopologyError(f"Names must be one per node, {num_nodes}, not {len(given)}")
    for node, name in enumerate(given):
        if not _can_be_printed(name):
            raise TopologyError(
                f"Name of node {node} must be 1 to {MAX_NAME} printable characters without spaces "
                f"around, not {ascii(name)[:MAX_NAME]}"
            )
    if len(set(given)) < num_nodes:
        first: dict[str, int] = {}
        for node, name in enumerate(given):
            if first.setdefault(name, node) != node:
                raise TopologyError(
                    f"Names must be different, not {name!r} of nodes {first[name]} and {node}"
                )
    return given


def names_of(nodes: Iterable[Any]) -> tuple[str, ...] | None:
    """Names of a graph's nodes by number: what they are there, unless that is the numbers.

    Parameters
    ----------
    nodes : iterable of hashable

    Examples
    --------
    >>> names_of([0, 1, 2]), names_of(["a", "b"]), names_of([(0, 1), 7])
    (None, ('a', 'b'), ('(0, 1)', '7'))
    """
    return names_or_none(
        text if _can_be_printed(text := str(node)) else ascii(node) for node in nodes
    )


def names_or_none(names: Iterable[str]) -> tuple[str, ...] | None:
    """The names, or None where each is the number of its node."""
    listed = tuple(names)
    return None if all(name == str(node) for node, name in enumerate(listed)) else listed


def names_at(names: Sequence[str] | None, nodes: Iterable[int]) -> tuple[str, ...] | None:
    """Names of some nodes, or None where there are none."""
    return None if names is None else tuple(names[node] for node in nodes)


def label_of(names: Sequence[str] | None, node: int) -> str:
    """A node for people: its number, and its name behind it where it has one.

    Examples
    --------
    >>> label_of(None, 3), label_of(("left", "right"), 1)
    ('3', '1 (right)')
    """
    return str(node) if names is None else f"{node} ({names[node]})"


def _can_be_printed(name: Any) -> bool:
    whole = isinstance(name, str) and 1 <= len(name) <= MAX_NAME
    return whole and name.isprintable() and name == name.strip()
