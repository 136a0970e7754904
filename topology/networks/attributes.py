"""Attributes of a graph's links: which are read, in what unit, and which are not."""

import re
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from multitree.topology.errors import TopologyError, TopologyWarning

__all__ = ["BANDWIDTH", "LATENCY", "NO_KEYS", "AttributeKey", "LinkKeys", "report_unread"]

BANDWIDTH, LATENCY = "bandwidth_gbytes_per_s", "latency_ns"
_GBYTES_PER_S = {
    f"{prefix}{unit}": scale * part / 1e9
    for prefix, scale in {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.items()
    for unit, part in {"B/s": 1.0, "b/s": 0.125, "bit/s": 0.125, "bps": 0.125}.items()
} | {"MiB/s": 2**20 / 1e9, "GiB/s": 2**30 / 1e9}
_NS = {"ps": 1e-3, "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_LOOKS = {
    BANDWIDTH: r"band_?width|speed|capacity|throughput|weight|[gmkt]i?b(it|yte)?s?_?(ps|per_?s)",
    LATENCY: r"latency|delay|weight",
}
_WORDS = {BANDWIDTH: {"bw", "rate"}, LATENCY: {"lat", "rtt"}}
_OPTIONS = {BANDWIDTH: "--bandwidth-key NAME:UNIT", LATENCY: "--latency-key NAME:UNIT"}
_MOST_LISTED = 8


class AttributeKey(NamedTuple):
    """The name of an attribute, and by what its numbers are multiplied."""

    name: str
    scale: float


@dataclass(frozen=True)
class LinkKeys:
    """By what attributes a graph tells the speed and the latency of its links.

    Parameters
    ----------
    bandwidth, latency : AttributeKey or None
        None for ours, `BANDWIDTH` and `LATENCY`, which links may leave out; others they may not.
    """

    bandwidth: AttributeKey | None = None
    latency: AttributeKey | None = None

    @classmethod
    def of(cls, bandwidth_key: str | None, latency_key: str | None) -> "LinkKeys":
        """The keys of two texts NAME:UNIT.

        Raises
        ------
        TopologyError
            If a text is none, or there is no such unit.

        Examples
        --------
        >>> LinkKeys.of("capacity:Gb/s", None).bandwidth
        AttributeKey(name='capacity', scale=0.125)
        """
        return cls(
            _key("Bandwidth key", bandwidth_key, _GBYTES_PER_S, "capacity:GB/s"),
            _key("Latency key", latency_key, _NS, "delay:us"),
        )

    def check(self, topology: str, found: Collection[str], known: Collection[str]) -> None:
        """Refuse attributes of links that may be speed or latency by another name; tell of others.

        Parameters
        ----------
        topology : str
            What the warning calls it.
        found : collection of str
            Names of the attributes that some link has.
        known : collection of str
            Those that are read, or that mean something else.

        Raises
        ------
        TopologyError
            If a name looks like one of a quantity that neither a key nor our attribute tells; or a
            key and our attribute tell the same.
        """
        keys = {BANDWIDTH: self.bandwidth, LATENCY: self.latency}
        read = {key.name for key in keys.values() if key is not None}
        chosen = {ours for ours, key in keys.items() if key is not None or ours in found}
        for ours, key in keys.items():
            if key is not None and key.name != ours and ours in found:
                raise TopologyError(
                    f"{ours} must not be there in addition to {key.name!r}, which is to be read "
                    "in its place"
                )
        unread = sorted(set(found) - set(known) - set(keys) - read)
        for name in unread:
            looks = _looks_like(name)
            # Where a key or our own attribute gives the quantity,
            # another name for it is no danger, and only warned of.
            if looks and not looks & chosen:
                options = " or ".join(_OPTIONS[ours] for ours in keys if ours in looks)
                ours = " or ".join(ours for ours in keys if ours in looks)
                raise TopologyError(
                    f"attribute {name!r} of links must be called {ours}, or be read by {options} "
                    f"(in Python bandwidth_key, latency_key), such as {name}:"
                    f"{'GB/s' if BANDWIDTH in looks else 'ns'}; it is not passed over"
                )
        report_unread(topology, "links", unread)


NO_KEYS = LinkKeys()


def report_unread(topology: str, owners: str, names: Iterable[str]) -> None:
    """Warn of attributes that are not read, if there are any.

    Parameters
    ----------
    topology : str
        What messages call it.
    owners : str
        What has them: "links", "nodes" or "the graph".
    names : iterable of str
    """
    listed = sorted(names)
    if listed:
        shown = ", ".join(map(ascii, listed[:_MOST_LISTED]))
        more = f" and {len(listed) - _MOST_LISTED} more" if len(listed) > _MOST_LISTED else ""
        what = f"attributes of {owners} that are not read: {shown}{more}"
        warnings.warn(f"{topology}: {what}", TopologyWarning, stacklevel=2)


def _key(
    thing: str, text: str | None, units: dict[str, float], example: str
) -> AttributeKey | None:
    if text is None:
        return None
    name, colon, unit = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not name or not colon:
        raise TopologyError(f"{thing} must be NAME:UNIT, such as {example}, not {text!r}")
    if unit not in units:
        raise TopologyError(f"{thing} must have a unit of {', '.join(units)}, not {unit!r}")
    return AttributeKey(name, units[unit])


def _looks_like(name: str) -> set[str]:
    """Which of our attributes another one may be meant for."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    snake = re.sub(r"[^a-z0-9]+", "_", snake)
    words = set(snake.split("_"))
    return {
        ours
        for ours, pattern in _LOOKS.items()
        if re.search(pattern, snake) or words & _WORDS[ours]
    }
