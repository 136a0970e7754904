"""Writes the tables of algorithms in docs/reference from their registry.

Run it without arguments; a test compares the two.
"""

import re
from pathlib import Path

from multitree.topology.algorithms.registry import ALGORITHMS

REFERENCE = Path(__file__).resolve().parent / "reference"
MARKED = r"(<!-- {}: written by `python docs/tables.py` -->\n).*?(<!-- end -->)"


def table(heads, rows):
    """A table in Markdown."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [heads, ["---"] * len(heads), *rows])


def tables():
    """Each table's page and name, and what it says."""
    columns = {
        "name": lambda each: f"`{each.name}`",
        "networks": lambda each: each.networks,
        "flows": lambda each: each.flows,
        "steps per phase": lambda each: each.steps,
        "chunk": lambda each: each.chunk,
        "what": lambda each: each.what,
    }
    rows = [[cell(each) for cell in columns.values()] for each in ALGORITHMS.values()]
    yield "algorithms.md", "algorithms", table([*columns], rows)


def pages():
    """The pages with their tables made anew."""
    texts = {}
    for page, name, made in tables():
        text = texts.get(page) or (REFERENCE / page).read_text()
        pattern = re.compile(MARKED.format(name), re.S)
        assert pattern.search(text), f"{page} has no table of {name}"
        texts[page] = pattern.sub(lambda found, made=made: found[1] + made + found[2], text)
    return {REFERENCE / page: text for page, text in texts.items()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
