"""What commands print for programs is what the JSON Schema says, and no more."""

import json
from dataclasses import asdict, fields
from pathlib import Path

import jsonschema
import pytest

from multitree import WorkReport
from multitree.host.cli import main as cli_main
from multitree.host.cli import verilog as cli_verilog
from multitree.host.design.verilog_files import Delivery
from multitree.host.evaluation.figure import Value
from multitree.host.evaluation.make import Comparison
from multitree.host.report_keys import key_table, keys_of, record
from multitree.host.report_schema import _schema_of, json_schema
from multitree.nic.driver.commands import PortCounts
from multitree.nic.driver.config import Config
from multitree.sim.timing.sizing import LinkLimit
from tests.emulation import needs_rtl
from tests.host.cli.commands import COMMANDS

SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
MORE = [
    "topology fat_tree:2x2 --out net.json",
    "schedule ring:4 --collective broadcast --root 1 --out rows.csv",
    "schedule torus:4x4 --algorithm forest",
    "verify ring:4 --algorithm double_tree",
    "table torus:4x4 --algorithm forest --size 64KiB",
    "table torus:65x65 --algorithm symmetric",
    "simulate ring:4 --engine analytic --collective reduce --root 0",
    "simulate ring:4 --engine analytic --algorithm auto --op avg",
    "simulate ring:4 --engine analytic --size 4kB,8KiB",
    "simulate ring:4 --engine exact --lockstep",
    "compare ring:5 --engine analytic --algorithms hdrm,ring",
    "compare ring:5 --engine analytic --size 4,1MB",
    "figure",
    "figure packets --networks torus:2x2 --size 4KiB --jobs 1",
    "explain ring:4 --size 4,8",
    "explain fat_tree:2x2 --collective reduce_scatter",
    "view torus:3x3 --out page.html",
    "simulate ring:4 --engine analytic --size 4KiB --trace run.json.gz",
    "doctor --clear-cache",
]
PRINTED = {name: more for name, more in COMMANDS.items() if name != "verilog"}


def problems(data):
    """What the schema finds wrong with an object."""
    return [error.message for error in VALIDATOR.iter_errors(data)]


@pytest.fixture(autouse=True)
def _cache_of_its_own(request, tmp_path, monkeypatch):
    # What was compiled once stays for all tests, so what clears a cache has its own.
    if "clear-cache" in request.node.name:
        monkeypatch.setenv("MULTITREE_CACHE", str(tmp_path / "cache"))


def test_the_command_schema_prints_a_schema_with_every_command(run):
    VALIDATOR.check_schema(SCHEMA)
    assert json.loads(run.printed("schema")) == SCHEMA
    versions = {each["properties"]["schema"]["enum"][0] for each in SCHEMA["oneOf"]}
    assert versions == {f"multitree.{name}.v1" for name in set(cli_main.COMMANDS) - {"schema"}}


def test_the_engines_of_a_figure_may_be_several(run):
    Path("s.yaml").write_text(
        "topology: ring:4\nalgorithm: ring\nsize: [4KiB, 8KiB]\nengine: analytic"
    )
    run.printed("sweep s.yaml --out r --jobs 1")
    results = Path("r/results.csv")
    results.write_text(results.read_text().replace("analytic", "exact", 1))
    data = run.json("figure sweep r")
    assert data["engine"] == "exact+analytic" and problems(data) == []


def test_types_of_the_table_are_schemas():
    nullable = {"type": ["string", "null"]}
    schemas = {
        "text or null": nullable,
        "number > 0": {"type": "number", "exclusiveMinimum": 0},
        "number >= 0 <= 1 or null": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "ours | published": {"enum": ["ours", "published"]},
        "choice of dependency or null": {"enum": ["chunk", "submessage", None]},
        "arrays or null": {"anyOf": [{"$ref": "#/$defs/arrays"}, {"type": "null"}]},
        "list of limit": {"type": "array", "items": {"$ref": "#/$defs/limit"}},
        "object of (text or null)": {"type": "object", "additionalProperties": nullable},
        "2 of integer or null": {
            **{"type": ["array", "null"], "items": {"type": "integer"}},
            **{"minItems": 2, "maxItems": 2},
        },
    }
    assert {text: _schema_of(text) for text in schemas} == schemas


def test_every_key_has_a_type_and_a_meaning():
    for name, keys in key_table().items():
        assert len(keys) == len({*keys})
        for key in keys.values():
            assert key.type and (key.meaning or key.name == "schema"), f"{name}.{key.name}"


def test_a_report_has_the_keys_of_the_table_in_its_order():
    assert list(record("doctor.damaged", {"reason": "", "name": ""})) == ["name", "reason"]
    for wrong in ({"path": ""}, {"path": "", "size_bytes": 1, "more": 2}):
        with pytest.raises(KeyError, match=r"doctor\.cache: keys must be those of"):
            record("doctor.cache", wrong)


@pytest.mark.parametrize(
    ("name", "noun"),
    [("figure.values", Value), ("figure.comparisons", Comparison), ("limit", LinkLimit)],
)
def test_fields_that_are_printed_are_keys(name, noun):
    assert keys_of(name) == tuple(field.name for field in fields(noun))


def test_figures_of_a_report_are_keys():
    known = set(WorkReport.__dataclass_fields__) - {"ports", "stages"}
    assert known <= set(keys_of("simulate"))
    assert set(PortCounts.__dataclass_fields__) <= set(keys_of("simulate"))


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.every_set
@pytest.mark.parametrize("line", [*map(" ".join, PRINTED.items()), *MORE])
def test_what_is_printed_is_valid_and_nothing_else_would_be(run, line):
    data = run.json(line)
    assert data["schema"] == f"multitree.{line.split()[0]}.v1"
    assert problems(data) == []
    for place in places(data):
        place["unheard_of"] = 1
        assert problems(data)
        del place["unheard_of"]
        if isinstance(place.get("size_bytes"), int):
            before = place["size_bytes"]
            place["size_bytes"] = str(before)
            assert problems(data)
            place["size_bytes"] = before


def places(data):
    """An object and the first one of each list in it, which have documented keys only."""
    yield data
    for value in data.values():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from places(value[0])


def test_the_keys_of_an_interface_are_those_of_its_configuration(run, monkeypatch):
    nothing = Delivery(Path("x"), files=(), manifest="y", removed=("z",), no_bench=None)
    writer = "multitree.host.design.verilog_files.write_verilog"
    monkeypatch.setattr(writer, lambda *_, **kinds: nothing)
    data = run.json("verilog fat_tree:2x2")
    assert problems(data) == []
    assert set(data["config"]) == set(asdict(Config()))


@needs_rtl
@pytest.mark.slow
def test_the_demo_prints_what_the_schema_says(run, monkeypatch):
    monkeypatch.setattr(cli_verilog, "SIZE_BYTES", 4096)
    assert problems(run.json("demo")) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", PRINTED)
def test_without_json_people_read_lines(run, command):
    out = run.printed(f"{command} {COMMANDS[command]}")
    assert len(out.splitlines()) > 3
    assert "{" not in out


def test_every_command_has_an_example_here():
    assert set(cli_main.COMMANDS) == set(COMMANDS) | {"demo", "schema"}
