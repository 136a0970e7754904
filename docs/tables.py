"""Writes the tables of algorithms and families in docs/reference from their registries.

Run it without arguments; a test compares the two.
"""

import re
from pathlib import Path

from multitree.topology.algorithms.registry import ALGORITHMS
from multitree.topology.families.registry import FAMILIES

REFERENCE = Path(__file__).resolve().parent / "reference"
MARKED = r"(<!-- {}: written by `python docs/tables.py` -->\n).*?(<!-- end -->)"


def table(columns, entries):
    """A table in Markdown: a row for each entry, its cells by their heads."""
    rows = [[*columns], ["---"] * len(columns)]
    rows += [[cell(each) for cell in columns.values()] for each in entries]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def specs(family):
    """Examples of a family's specs."""
    return ", ".join(f"`{example}`" for example in family.examples)


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
    yield "algorithms.md", "algorithms", table(columns, ALGORITHMS.values())
    columns = {
        "SPEC": specs,
        "network": lambda each: each.help,
        "order of links": lambda each: each.links,
    }
    yield "schedules.md", "families", table(columns, FAMILIES.values())
    columns = {
        "family": lambda each: f"`{each.spec}`",
        "route": lambda each: each.route,
        "class": lambda each: each.classes,
    }
    yield "schedules.md", "routes", table(columns, FAMILIES.values())


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
