"""The JSON Schema of what commands print, made from the table of report keys."""

import re
from typing import Any

from multitree.host.parameters import parameter
from multitree.host.report_keys import Key, key_table

__all__ = ["SEVERAL_SIZES", "json_schema", "meaning_of", "python_type_of"]

VERSION = "1.5"
"""Of the JSON Schema: a key that is added raises the second number."""
SEVERAL_SIZES = ("simulate", "compare", "explain")
"""Commands that also print a list of their object, one per size, as the key sizes."""

_SCHEMAS: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "number or text": {"type": ["number", "string"]},
    "boolean": {"type": "boolean"},
    "object": {"type": "object"},
    "true": {"const": True},
    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}
_BOUNDS = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum"}
_TYPES: dict[str, type] = {"integer": int, "number": float, "boolean": bool}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of what every command prints with ``--json``."""
    printed = [name for name, keys in key_table().items() if "schema" in keys]
    entries = [name for name in key_table() if name and name not in printed]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "multitree.output.v1",
        "version": VERSION,
        "title": "What the commands of MultiTree print with --json",
        "description": "The key schema says of which command an object is, and in which version. "
        "A key that is removed, or gets another meaning, raises the number behind v; one that is "
        "added raises the second number of version.",
        "oneOf": [schema for name in printed for schema in _printed(name)],
        "$defs": {name: _object(_properties(name)) for name in [*entries, *SEVERAL_SIZES]},
    }


def _printed(name: str) -> list[dict[str, Any]]:
    """Schemas of an object that a command prints, and of a list of it."""
    version = {"schema": _schema_of(key_table()[name]["schema"].type)}
    found = [_object(version | _properties(name))]
    if name in SEVERAL_SIZES:
        sizes = {"type": "array", "minItems": 2, "items": {"$ref": f"#/$defs/{name}"}}
        found.append(_object(version | {"sizes": sizes}))
    return found


def _properties(name: str) -> dict[str, Any]:
    """Schemas of an object's keys but its version."""
    keys = [key for key in key_table()[name].values() if key.name != "schema"]
    return {key.name: {"description": meaning_of(key)} | _schema_of(key.type) for key in keys}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with all of these keys, and no other one."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _schema_of(text: str) -> dict[str, Any]:
    """The schema of a type in the notation of the table.

    It is a word of `_SCHEMAS`, a number with bounds, words with bars between, the choice of a
    parameter, an object of the table, a list or an object of these, and any of it or null.
    """
    if text in _SCHEMAS:
        return _SCHEMAS[text]
    if text in key_table():
        return {"$ref": f"#/$defs/{text}"}
    if text.endswith(" or null"):
        return _or_null(_schema_of(text.removesuffix(" or null")))
    if found := re.fullmatch(r"object of \((.*)\)|object of (.*)", text):
        return {"type": "object", "additionalProperties": _schema_of(found[1] or found[2])}
    if found := re.fullmatch(r"(list|\d+) of (.*)", text):
        items: dict[str, Any] = {"type": "array", "items": _schema_of(found[2])}
        if found[1] != "list":
            items |= dict.fromkeys(("minItems", "maxItems"), int(found[1]))
        return items
    if found := re.fullmatch(r"choice of (\w+)", text):
        return {"enum": _choices(found[1])}
    if found := re.fullmatch(r"(integer|number)((?: [<>]=? \d+)*)", text):
        bounds = re.findall(r"([<>]=?) (\d+)", found[2])
        return {"type": found[1]} | {_BOUNDS[sign]: int(number) for sign, number in bounds}
    return {"enum": text.split(" | ")}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return schema | {"type": [*kinds, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _choices(name: str) -> list[str]:
    """What a parameter may be, by the names that reports have."""
    return [each for each in parameter(name).choices if each != "avg"]


def meaning_of(key: Key) -> str:
    """The meaning of a key, with the choices and the default of its parameter filled in."""
    if "{choices}" in key.meaning:
        name = key.type.removesuffix(" or null").rpartition("choice of ")[2]
        *others, last = (f"`{each}`" for each in _choices(name))
        return key.meaning.replace("{choices}", f"{', '.join(others)} or {last}")
    if "{default}" in key.meaning:
        return key.meaning.replace("{default}", f"{parameter(key.name).default:g}")
    return key.meaning


def python_type_of(key: Key) -> type:
    """The type of a key's values in columns of files, null aside."""
    return _TYPES.get(key.type.split()[0], str)
