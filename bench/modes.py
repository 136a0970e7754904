"""Cycles of MultiTree in RTL: cut-through and packets against the paper's modes.

Every run is compared with `execute` bit for bit. `--json` for programs. Exit status 1 where a
result is not exact: ``python bench/modes.py``.
"""

import sys
from collections.abc import Iterator

from _bench import Row, all_exact, ended, options, reported
from _runs import grid

CASES = (("torus:4x4", "1MiB"), ("torus:8x8", "1MiB"), ("torus:8x8", "32KiB"))
BY = ["submessage", "chunk"]
MODES = (
    {"dependency": BY, "flow_control": "message", "memory_cycles": [12, 40, 100]},
    {"dependency": BY, "flow_control": "packet", "memory_cycles": 12},
)
KEYS = ("topology", "size_bytes", "dependency", "flow_control", "memory_cycles")


def measured() -> Iterator[Row]:
    """A row per run, packets with what they take longer than the same run with messages."""
    for topology, size in CASES:
        of_messages = {}
        for modes in MODES:
            rtl = {"algorithm": "multitree", "engine": "rtl"}
            for point, result in grid(topology=topology, size=size, **rtl, **modes):
                cycles, key = result["cycles"], (point.dependency, point.memory_cycles)
                row = {name: getattr(point, name) for name in KEYS} | {"cycles": cycles}
                row |= {"over_bound": result["ratio_to_bound"], "exact": result["exact"]}
                over = cycles / of_messages.setdefault(key, cycles) - 1
                row["packets_over_messages"] = over if point.flow_control == "packet" else None
                yield row


def main() -> int:
    given = options(__doc__)
    rows = reported(given, measured(), *KEYS, "cycles", "over_bound", "packets_over_messages")
    return ended(given, all_exact(rows), {"rows": rows})


if __name__ == "__main__":
    sys.exit(main())
