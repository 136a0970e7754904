"""Writes the tables of keys in docs/json.md from host/cli/output.schema.json.

Run it without arguments; a test compares the two.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "json.md"
SCHEMA = ROOT / "host" / "cli" / "output.schema.json"


def lines(schema, properties, prefix=""):
    """Rows of a table, those of objects and lists inside behind what holds them."""
    for key, value in properties.items():
        if "const" in value and "description" not in value:
            text = f"`{value['const']}`"
        else:
            text = value.get("description", "see above")
        yield f"| `{prefix}{key}` | {text} |"
        inside, mark = (value["items"], "[].") if "items" in value else (value, ".")
        name = inside.get("$ref", "").rpartition("/")[2]
        if name == f"{schema['command']}_{key}":
            yield from lines(schema, schema["$defs"][name]["properties"], f"{key}{mark}")


def table(schema, command):
    """The table of one command's keys."""
    properties = schema["$defs"][f"{command}_output"]["properties"]
    first = {"schema": {"const": f"multitree.{command}.v1"}}
    rows = lines({**schema, "command": command}, first | properties)
    return "\n".join(["| key | meaning |", "|---|---|", *rows])


def rewritten(text, schema):
    """The document with its tables of commands' keys made anew."""
    for command in re.findall(r"^## `multitree (\w+)`$", text, re.M):
        pattern = rf"(?<=^## `multitree {command}`\n\n)\| key .*?(?=\n\n|\n?\Z)"
        made = table(schema, command)
        text = re.sub(pattern, lambda _, made=made: made, text, flags=re.M | re.S)
    return text


if __name__ == "__main__":
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text(), json.loads(SCHEMA.read_text())))
