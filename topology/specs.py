"""Networks by a short text: a family with its sizes, or the path of a file."""

import os
import re
from contextlib import suppress
from pathlib import Path

from multitree.topology.errors import TopologyError, meant, not_one_of
from multitree.topology.families.registry import SPECS, Family
from multitree.topology.files.load_save import load_topology
from multitree.topology.networks.topology import Topology

__all__ = ["names_file", "parse_topology"]

_COUNT_WORDS = ("none", "one number", "two numbers", "three numbers")


def parse_topology(
    spec_or_path: str | Path,
    *,
    bandwidth_key: str | None = None,
    latency_key: str | None = None,
    kind_key: str | None = None,
) -> Topology:
    """Read a spec such as "torus:4x4", or the path of a JSON or GraphML file.

    Parameters
    ----------
    spec_or_path : str or pathlib.Path
        A family with its sizes: ``ring:16``, ``torus:4x4``, ``fat_tree:4x8``, ``dgx2`` and so on,
        docs/reference/schedules.md has them all; or a path as `load_topology` reads.
    bandwidth_key, latency_key, kind_key : str, optional
        Of a file, as for `load_topology`.

    Returns
    -------
    Topology

    Raises
    ------
    TypeError
        If it is no text and no path.
    TopologyError
        If the spec is malformed, the family unknown, a size out of range or the file unusable.

    Examples
    --------
    >>> parse_topology("mesh:4x2x2").num_ranks
    16
    """
    if not isinstance(spec_or_path, str | Path):
        raise TypeError(f"Topology must be a spec or a path, not {spec_or_path!r}")
    text = str(spec_or_path)
    keys = {"bandwidth_key": bandwidth_key, "latency_key": latency_key, "kind_key": kind_key}
    if isinstance(spec_or_path, Path) or names_file(text):
        return load_topology(text, **keys)
    if any(key is not None for key in keys.values()):
        raise TopologyError(f"Keys of data must come with a file, not with {text!r}")
    word, colon, sizes = text.partition(":")
    family = SPECS.get(word)
    if not colon and (family is None or 0 not in family.sizes):
        raise TopologyError(
            f"Topology must be a spec such as 'torus:4x4' or the path of a file, not {text!r}"
            + (meant(word, SPECS) or meant(text, _files_near(text)))
        )
    if family is None:
        raise TopologyError(not_one_of("Topology family", word, SPECS))
    return family.build(*(_sizes(family, sizes) if colon else ()))


def names_file(spec: str) -> bool:
    """Whether a text is a file's path, there or not, and no spec."""
    return spec.endswith((".json", ".graphml")) or os.path.isfile(spec)


def _files_near(path: str) -> list[str]:
    """Files of topologies in the folder of a path that is none."""
    with suppress(OSError, ValueError):
        folder = os.path.dirname(path)
        return [os.path.join(folder, name) for name in os.listdir(folder or ".") if "." in name]
    return []


def _sizes(family: Family, sizes: str) -> list[int]:
    if not re.fullmatch(r"[0-9]{1,9}(x[0-9]{1,9})*", sizes, re.ASCII):
        raise TopologyError(f"Sizes of {family.spec!r} must be like 4x4, not {sizes!r}")
    numbers = [int(size) for size in sizes.split("x")]
    if len(numbers) not in family.sizes:
        counts = " or ".join(_COUNT_WORDS[count] for count in family.sizes)
        raise TopologyError(f"Sizes of {family.spec!r} must be {counts}, not {sizes!r}")
    return numbers
