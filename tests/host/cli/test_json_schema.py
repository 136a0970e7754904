"""What commands print for programs is what the JSON Schema says, and no more."""

import json
from dataclasses import asdict
from pathlib import Path

import jsonschema
import pytest
from docs import json_keys

from multitree.host.cli import main as cli_main
from multitree.host.cli import verilog as cli_verilog
from multitree.host.cli.main import main
from multitree.host.design.verilog_files import Delivery
from multitree.nic.driver.config import Config
from tests.host.cli.test_cli import COMMANDS, needs_rtl

SCHEMA = json.loads(json_keys.SCHEMA.read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
MORE = [
    ["topology", "fat_tree:2x2", "--out", "net.json"],
    ["schedule", "ring:4", "--collective", "broadcast", "--root", "1", "--out", "rows.csv"],
    ["schedule", "torus:4x4", "--algorithm", "forest"],
    ["verify", "ring:4", "--algorithm", "double_tree"],
    ["table", "torus:4x4", "--algorithm", "forest", "--size", "64KiB"],
    ["table", "torus:65x65", "--algorithm", "symmetric"],
    ["simulate", "ring:4", "--engine", "analytic", "--collective", "reduce", "--root", "0"],
    ["simulate", "ring:4", "--engine", "analytic", "--algorithm", "auto", "--op", "avg"],
    ["simulate", "ring:4", "--engine", "analytic", "--size", "4kB,8KiB"],
    ["simulate", "ring:4", "--engine", "exact", "--lockstep"],
    ["compare", "ring:5", "--engine", "analytic", "--algorithms", "hdrm,ring"],
    ["compare", "ring:5", "--engine", "analytic", "--size", "4,1MB"],
    ["figure"],
    ["figure", "packets", "--networks", "torus:2x2", "--size", "4KiB", "--jobs", "1"],
    ["explain", "ring:4", "--size", "4,8"],
    ["explain", "fat_tree:2x2", "--collective", "reduce_scatter"],
    ["view", "torus:3x3", "--out", "page.html"],
    ["simulate", "ring:4", "--engine", "analytic", "--size", "4KiB", "--trace", "run.json.gz"],
    ["doctor", "--clear-cache"],
]


def printed(capsys, arguments):
    """The object that a command prints."""
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def problems(data):
    """What the schema finds wrong with an object."""
    return [error.message for error in VALIDATOR.iter_errors(data)]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # What was compiled once stays for all tests, so what clears a cache has its own.
    if "clear-cache" in request.node.name:
        monkeypatch.setenv("MULTITREE_CACHE", str(tmp_path / "cache"))


def test_the_schema_is_one_and_has_every_command():
    VALIDATOR.check_schema(SCHEMA)
    names = set(cli_main.COMMANDS)
    assert {f"{name}_output" for name in names} <= set(SCHEMA["$defs"])
    said = json.dumps(SCHEMA["oneOf"] + [*SCHEMA["$defs"].values()])
    assert all(f'"multitree.{name}.v1"' in said for name in names)


def test_the_tables_of_the_document_are_those_of_the_schema():
    text = json_keys.DOCUMENT.read_text()
    assert json_keys.rewritten(text, SCHEMA) == text
    assert json_keys.rewritten(text.replace("| whose table |", "| whose |"), SCHEMA) == text


@pytest.mark.slow
@pytest.mark.every_set
@pytest.mark.parametrize(
    "arguments",
    [[name, *more] for name, more in COMMANDS.items() if name != "verilog"] + MORE,
    ids=" ".join,
)
def test_what_is_printed_is_valid_and_nothing_else_would_be(capsys, arguments):
    data = printed(capsys, arguments)
    assert data["schema"] == f"multitree.{arguments[0]}.v1"
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


def test_the_keys_of_an_interface_are_those_of_its_configuration(capsys, monkeypatch):
    nothing = Delivery(Path("x"), files=(), manifest="y", removed=("z",), no_bench=None)
    monkeypatch.setattr("multitree.host.cli.verilog.write_verilog", lambda *_, **kinds: nothing)
    data = printed(capsys, ["verilog", "fat_tree:2x2"])
    assert problems(data) == []
    assert set(data["config"]) == set(asdict(Config()))


@needs_rtl
@pytest.mark.slow
def test_the_demo_prints_what_the_schema_says(capsys, monkeypatch):
    monkeypatch.setattr(cli_verilog, "SIZE_BYTES", 4096)
    assert problems(printed(capsys, ["demo"])) == []
