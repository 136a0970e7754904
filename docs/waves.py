"""Signals out of a VCD file, cycle by cycle, and their picture as SVG."""

import itertools
from dataclasses import dataclass
from html import escape

CYCLE_PS = 1000
"""The emulation's waveforms have a cycle per nanosecond, its rising edge in the middle."""

CELL, ROW, HIGH, LEFT, TOP, SLANT = 44, 30, 18, 216, 34, 4
INK, WEAK, GRID, FILL = "#1f2937", "#9ca3af", "#e5e7eb", "#dbeafe"


def read_cycles(path, scope):
    """Values of one scope's ports just before each rising edge.

    Parameters
    ----------
    path : Path
        VCD file as the emulation writes it.
    scope : str
        Name of the outermost scope, as "rank_0".

    Returns
    -------
    dict of str to list of int
        By port; entry k is what edge k samples.
    """
    ports, now, values, cycles, scopes = {}, {}, {}, 0, []
    with open(path) as file:
        for line in file:
            words = line.split()
            if not words:
                continue
            mark = words[0][0]
            if words[0] == "$scope":
                scopes.append(words[2])
            elif words[0] == "$upscope":
                scopes.pop()
            elif words[0] == "$var" and scopes == [scope]:
                ports.setdefault(words[3], []).append(words[4])
            elif mark == "#":
                # An edge is in the middle of its cycle, and what changes then it does not see.
                edges = (int(words[0][1:]) + CYCLE_PS // 2) // CYCLE_PS
                for name in itertools.chain.from_iterable(ports.values()):
                    values.setdefault(name, []).extend([now.get(name, 0)] * (edges - cycles))
                cycles = edges
            elif mark in "01bxz":
                bits, code = words if mark == "b" else (mark, words[0][1:])
                for name in ports.get(code, ()):
                    now[name] = int(bits.lstrip("b"), 2)
    return values


@dataclass(frozen=True)
class Line:
    """A line of a picture.

    Parameters
    ----------
    name : str
        The port.
    gate : str or None
        A port that must be high for this one to mean anything; None shows it always.
    text : callable or None
        What a value is called; None for one bit, drawn as a level.
    """

    name: str
    gate: str | None = None
    text: object = None


def svg(values, lines, first, last):
    """Draw lines from one cycle to another.

    Parameters
    ----------
    values : dict
        From `read_cycles`.
    lines : list of Line
        From top to bottom, below the clock.
    first, last : int
        First cycle, and the one after the last.
    """
    cycles = range(first, last)
    width, height = LEFT + CELL * len(cycles) + 12, TOP + ROW * (len(lines) + 1) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="monospace" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for i in range(len(cycles)):
        x = LEFT + CELL * i
        parts.append(f'<path d="M{x} {TOP - 4}V{height - 4}" stroke="{GRID}"/>')
        parts.append(_text(str(i), x=x + CELL / 2, y=18, anchor="middle", fill=WEAK))
    parts += _clock(len(cycles))
    for row, line in enumerate(lines, start=1):
        y = TOP + ROW * row
        parts.append(_text(line.name, x=LEFT - 10, y=y + 14, anchor="end", fill=INK))
        shown = values[line.name][first:last]
        if line.text is None:
            parts.append(_level(shown, y))
        else:
            valid = [1] * len(cycles) if line.gate is None else values[line.gate][first:last]
            parts += _bus(shown, valid, line.text, y)
    return "\n".join([*parts, "</svg>", ""])


def _text(text, *, x, y, anchor, fill):
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'


def _clock(count):
    """Rising edges at the cycles' borders: what an edge samples stands to its left."""
    path = f"M{LEFT} {TOP + HIGH}"
    for i in range(count):
        x = LEFT + CELL * i
        path += f"V{TOP}H{x + CELL // 2}V{TOP + HIGH}H{x + CELL}"
    yield _text("clk", x=LEFT - 10, y=TOP + 14, anchor="end", fill=INK)
    yield f'<path d="{path}V{TOP}" fill="none" stroke="{INK}"/>'


def _level(shown, y):
    heights = [y if value else y + HIGH for value in shown]
    path = f"M{LEFT} {heights[0]}"
    for i, height in enumerate(heights):
        x = LEFT + CELL * i
        path += f"L{x + (SLANT if i else 0)} {height}H{x + CELL}"
    return f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.5"/>'


def _bus(shown, valid, text, y):
    """A box for every stretch in which the value stays; grey where it means nothing."""
    start = 0
    for i in range(1, len(shown) + 1):
        same = i < len(shown) and valid[i] == valid[start]
        if same and (not valid[i] or shown[i] == shown[start]):
            continue
        left, right = LEFT + CELL * start, LEFT + CELL * i
        middle, low = y + HIGH / 2, y + HIGH
        box = (
            f"M{left} {middle}L{left + SLANT} {y}H{right - SLANT}L{right} {middle}"
            f"L{right - SLANT} {low}H{left + SLANT}Z"
        )
        fill = FILL if valid[start] else GRID
        yield f'<path d="{box}" fill="{fill}" stroke="{INK if valid[start] else WEAK}"/>'
        if valid[start]:
            label = {"x": (left + right) / 2, "y": y + 13, "anchor": "middle", "fill": INK}
            yield _text(text(shown[start]), **label)
        start = i
