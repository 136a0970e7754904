"""Draws the all-gather of a schedule on a grid, a panel per step, a colour per tree.

    python docs/trees.py

writes docs/trees.svg: each arrow is a message, and no two arrows of one panel lie on one link.
"""

import colorsys
from pathlib import Path

from multitree import build, torus
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

SIDE = 4
PITCH, MARGIN, GAP = 46, 40, 26  # pixels
RADIUS, OFFSET, STUB = 9, 5, 15
FILE = Path(__file__).resolve().parent / "trees.svg"


def colour(root: int, num_ranks: int) -> str:
    """The colour of the tree below a root: hues as far apart as they can be."""
    rgb = colorsys.hls_to_rgb(root * 7 % num_ranks / num_ranks, 0.42, 0.75)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def place(rank: int) -> tuple[float, float]:
    """Where a rank is drawn in its panel."""
    return MARGIN + rank % SIDE * PITCH, MARGIN + rank // SIDE * PITCH


def arrow(src: int, dst: int, stroke: str) -> str:
    """A message between neighbours; one that wraps around is drawn as two stubs."""
    (x0, y0), (x1, y1) = place(src), place(dst)
    dx, dy = ((b > a) - (b < a) for a, b in ((x0, x1), (y0, y1)))
    wraps = abs(x1 - x0) + abs(y1 - y0) > PITCH
    if wraps:
        dx, dy = -dx, -dy
    side_x, side_y = -dy * OFFSET, dx * OFFSET  # each direction on a side of its own
    start = x0 + dx * RADIUS + side_x, y0 + dy * RADIUS + side_y
    end = x1 - dx * RADIUS + side_x, y1 - dy * RADIUS + side_y
    parts = [(start, end)]
    if wraps:
        out = start[0] + dx * STUB, start[1] + dy * STUB
        back = end[0] - dx * STUB, end[1] - dy * STUB
        parts = [(start, out), (back, end)]
    lines = []
    for number, ((ax, ay), (bx, by)) in enumerate(parts):
        last = number == len(parts) - 1
        head_x, head_y = bx - dx * 5, by - dy * 5
        stop = (head_x, head_y) if last else (bx, by)
        lines.append(
            f'<path d="M{ax:g} {ay:g}L{stop[0]:g} {stop[1]:g}" stroke="{stroke}" stroke-width="2"/>'
        )
        if last:
            tip = f"{bx:g},{by:g} {head_x - dy * 4:g},{head_y + dx * 4:g}"
            tip += f" {head_x + dy * 4:g},{head_y - dx * 4:g}"
            lines.append(f'<polygon points="{tip}" fill="{stroke}"/>')
    return "".join(lines)


def panel(schedule: Schedule, step: int) -> list[str]:
    """All messages of one step, and the ranks."""
    num_ranks, roots = schedule.topology.num_ranks, schedule.roots_of(Op.GATHER)
    rows = ((schedule.step == step) & (schedule.op == Op.GATHER)).nonzero()[0]
    lines = [
        arrow(
            int(schedule.src[row]),
            int(schedule.dst[row]),
            colour(int(roots[schedule.flow[row]]), num_ranks),
        )
        for row in rows
    ]
    for rank in range(num_ranks):
        x, y = place(rank)
        fill = colour(rank, num_ranks)
        lines.append(f'<circle cx="{x}" cy="{y}" r="{RADIUS}" fill="{fill}"/>')
        lines.append(f'<text x="{x}" y="{y + 3.5}" fill="#fff">{rank}</text>')
    return lines


def svg() -> str:
    """The picture."""
    schedule = build(torus(SIDE, SIDE), "multitree")
    first = schedule.steps_reduce_scatter
    steps = range(first, schedule.num_steps)
    width = 2 * MARGIN + (SIDE - 1) * PITCH
    total = len(steps) * width + (len(steps) - 1) * GAP
    height = width + 22
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" '
        f'width="{total}" height="{height}" font-family="sans-serif" font-size="10" '
        f'text-anchor="middle" fill="none">',
        f'<rect width="{total}" height="{height}" fill="#ffffff"/>',
    ]
    for number, step in enumerate(steps):
        lines.append(f'<g transform="translate({number * (width + GAP)} 18)">')
        count = int(((schedule.step == step) & (schedule.op == Op.GATHER)).sum())
        lines.append(
            f'<text x="{width / 2:g}" y="0" fill="#1f2937" font-size="12">'
            f"step {number + 1}: {count} messages on 64 links</text>"
        )
        lines += [*panel(schedule, step), "</g>"]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    FILE.write_text(svg())
    print(FILE)
