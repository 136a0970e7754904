"""Lines and toggles that Verilator counted, and sums of them."""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Point", "by_module", "read_points", "runs_of", "share", "unreached"]


@dataclass(frozen=True)
class Point:
    """A line (a branch is one, too) or a toggle, and how often Verilator saw it reached."""

    # Without the numbers that tell equal modules apart.
    module: str
    kind: str
    # The signal of a toggle, without its bit; else the branch and the line of Verilog.
    what: str
    count: int
    # Path, with `*` for the numbers of instances that are counted together.
    instance: str = ""
    bit: int = 0
    edge: str = ""


def read_points(path, verilog):
    """Points of a coverage.dat, which has one of `\\1key\\2value...` and a count on each line.

    They have the lines of the Verilog that was built: a file has but their numbers, which move.
    """
    lines, points = verilog.splitlines(), []
    for line in Path(path).read_text(errors="replace").splitlines():
        found = re.fullmatch(r"C '(.*)' (\d+)", line)
        if not found:
            continue
        fields = dict(pair.split("\2", 1) for pair in found[1].split("\1") if "\2" in pair)
        kind, _, module = fields["page"].partition("/")
        module = re.sub(r"\$\d+$", "", module.removeprefix("\\").strip())
        module = re.sub(r"_\d+(?=\.|$)", "", module)
        place = {"instance": fields["h"]}
        if kind == "v_toggle":
            what, bit, edge = _signal(fields["o"])
            place |= {"bit": bit, "edge": edge}
        else:
            what = f"{fields['o']}: {lines[int(fields['l']) - 1].strip()}"
        kind = "toggle" if kind == "v_toggle" else "line"
        points.append(Point(module, kind, what, int(found[2]), **place))
    return points


def _signal(text):
    """Name, bit and edge of a toggle; of a word of a memory the bit is 0, and it is in the name."""
    found = re.fullmatch(r"(.*?)(?:\[(\d+)\])?:(0->1|1->0)", text)
    # Characters that C++ has no room for in a name.
    name = re.sub(r"__0([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), found[1])
    return name, int(found[2] or 0), found[3]


def by_module(points):
    """Rows of (module, lines reached, lines, toggles reached, toggles), by module."""
    counts = defaultdict(lambda: [0, 0, 0, 0])
    for point in points:
        place = 2 * (point.kind == "toggle")
        counts[point.module][place] += point.count > 0
        counts[point.module][place + 1] += 1
    return [(module, *counts[module]) for module in sorted(counts)]


def share(points, kind):
    """How many per cent of the points of a kind were reached."""
    reached = [point.count > 0 for point in points if point.kind == kind]
    return 100 * sum(reached) / len(reached) if reached else 100.0


def unreached(points):
    """Rows of (points not reached, points, module, what with its bits), the most first."""
    counts, bits = defaultdict(lambda: [0, 0]), defaultdict(set)
    for point in points:
        key = point.module, point.kind, point.what
        counts[key][0] += not point.count
        counts[key][1] += 1
        if point.kind == "toggle" and not point.count:
            bits[key].add(point.bit)
    rows = [
        (missed, total, module, f"{kind} {what}" + (f"[{_ranges(bits[key])}]" if bits[key] else ""))
        for key, (missed, total) in counts.items()
        for module, kind, what in (key,)
        if missed
    ]
    return sorted(rows, key=lambda row: (-row[0], row[2:]))


def runs_of(numbers):
    """Numbers that follow each other, as (first, last)."""
    runs = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


def _ranges(numbers):
    """Numbers in words: 1, 4..7."""
    return ", ".join(f"{a}..{b}" if a < b else f"{a}" for a, b in runs_of(numbers))
