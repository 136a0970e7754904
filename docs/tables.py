"""Writes tables of docs/reference from the code: algorithms, families, options, keys.

Run it without arguments; a test compares the two.
"""

import re
from operator import itemgetter
from pathlib import Path

from multitree.host.cli.main import COMMANDS, load_command
from multitree.host.evaluation.definition import REQUIRED
from multitree.host.evaluation.point import Point
from multitree.host.parameters import DEFAULT_ALGORITHM, PARAMETERS, swept_parameters
from multitree.host.report_keys import key_table
from multitree.host.report_schema import meaning_of
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


# What help lists, and what pages link to in its place.
LISTS = {
    ", ".join(name for name in ALGORITHMS if name != DEFAULT_ALGORITHM): "the others",
    ", ".join(family.examples[-1] for family in FAMILIES.values()): (
        "a [family](schedules.md#families-and-numbering-of-links) with its sizes"
    ),
}
OPTION_HEADS = "option", "values", "default", "commands", "what"
KEY_HEADS = "key", "values", "without the key", "what"


def of_rows(heads):
    """Columns of rows whose cells are in the order of the heads."""
    return {head: itemgetter(index) for index, head in enumerate(heads)}


def shown(value):
    """A value of a parameter: a word as code, a number as it is."""
    words = {None: "null", True: "true", False: "false"}
    if isinstance(value, bool) or value is None:
        return words[value]
    return f"`{value}`" if isinstance(value, str) else f"{value:g}"


def values_of(row):
    """What a parameter may be."""
    if len(row.choices) >= len(ALGORITHMS):
        others = [f", `{name}`" for name in row.choices if name not in ALGORITHMS]
        return f"[names](algorithms.md){''.join(others)}"
    if row.choices:
        return ", ".join(f"`{name}`" for name in row.choices)
    if row.range:
        ends = [int(end) if end == int(end) else end for end in row.range]
        return " to ".join(f"{end:,}".replace(",", " ") for end in ends)
    return "true, false" if isinstance(row.default, bool) else f"`{row.metavar}`"


def help_of(row):
    """What a parameter is, without lists that have tables of their own."""
    text = row.help
    for listed, link in LISTS.items():
        text = text.replace(listed, link)
    return text


def options():
    """Rows of options that several commands share, with the commands that take them."""
    taken = {
        name: [(each.name, each.help) for each in load_command(name).params] for name in COMMANDS
    }
    for row in PARAMETERS:
        by = [f"`{name}`" for name in COMMANDS if (row.name, row.help) in taken[name]]
        others = [f"`{name}`" for name in COMMANDS if f"`{name}`" not in by]
        commands = f"all but {', '.join(others)}" if len(others) < len(by) else ", ".join(by)
        if row.name != "spec":
            plain = row.default is None or row.default is False
            values = "" if isinstance(row.default, bool) else values_of(row)
            default = "" if plain else shown(row.default)
            yield [f"`{row.option}`", values, default, commands.removesuffix(" but "), help_of(row)]


def sweep_keys():
    """Rows of keys of sweeps: their values, and what is taken without them."""
    plain = Point("", "", 0, "")
    for key, row in swept_parameters().items():
        without = "must be there" if key in REQUIRED else shown(getattr(plain, row.key))
        values = values_of(row) + (", null" if without == "null" else "")
        yield [f"`{key}`", values, without, help_of(row)]


def meanings(name, prefix="", command=""):
    """Rows of an object's keys; those of its own entries, named behind it, are put below each."""
    for key in key_table()[name].values():
        text = f"`{key.type}`" if key.name == "schema" else meaning_of(key)
        yield [f"`{prefix}{key.name}`", "see above" if key.shared and command else text]
        inside = f"{command}.{key.name}"
        if command and inside in key.type:
            mark = "[]." if key.type.startswith("list of") else "."
            yield from meanings(inside, key.name + mark, command)


def key_tables():
    """Tables of report keys: those that objects share, of limits, and of each command."""
    columns = of_rows(("key", "meaning"))
    yield "../json.md", "shared keys", table(columns, meanings(""))
    yield "../json.md", "limit", table(columns, meanings("limit"))
    for name in COMMANDS:
        if name in key_table():
            yield "../json.md", name, table(columns, meanings(name, command=name))


def tables():
    """Each table's page and name, and what it says."""
    yield "command-line.md", "options", table(of_rows(OPTION_HEADS), options())
    yield from key_tables()
    yield "sweep.md", "keys of sweeps", table(of_rows(KEY_HEADS), sweep_keys())
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
