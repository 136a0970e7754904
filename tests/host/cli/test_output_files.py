"""What a command writes is whole, or what was there before stays."""

import re
from pathlib import Path

import pytest

from multitree.host.cli.main import main
from multitree.host.cli.schedule import SCHEDULE_SUFFIXES, TOPOLOGY_SUFFIXES
from multitree.host.design import verilog_files
from multitree.host.design.names import DesignNames
from tests.topology.test_file_io import contents, file_limit


def refused(capsys, *arguments):
    """What a command says that cannot write, in one sentence and with status 2."""
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"multitree: [^\n]*\n", captured.err)
    return captured.err.removeprefix("multitree: ").rstrip()


@pytest.mark.parametrize(
    ("command", "suffix"),
    [
        *(("topology", suffix) for suffix in TOPOLOGY_SUFFIXES),
        *(("schedule", suffix) for suffix in SCHEDULE_SUFFIXES),
    ],
)
def test_a_file_that_does_not_fit_leaves_the_one_that_was_there(capsys, command, suffix):
    path = f"kept{suffix}"
    assert main([command, "torus:2x2", "--out", path]) == 0
    capsys.readouterr()
    before = contents(Path())
    with file_limit(512):
        assert refused(capsys, command, "torus:8x8", "--out", path) in (
            f"{path}: file must be writable, not: File too large",
            f"{path}: File too large",
        )
    assert contents(Path()) == before


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("view", ["--out", "kept.html"]),
        ("simulate", ["--engine", "analytic", "--trace", "kept.json.gz"]),
        ("simulate", ["--engine", "analytic", "--trace", "kept.json"]),
    ],
)
def test_a_page_or_trace_that_does_not_fit_leaves_the_one_that_was_there(capsys, command, options):
    assert main([command, "torus:2x2", *options]) == 0
    capsys.readouterr()
    before = contents(Path())
    with file_limit(512):
        assert "File too large" in refused(capsys, command, "torus:3x3", *options)
    assert contents(Path()) == before


@pytest.mark.parametrize(
    ("command", "formats"),
    [("topology", ".json or .graphml"), ("schedule", ".json or .csv")],
)
def test_a_file_of_a_format_that_is_not_written_is_refused(capsys, command, formats):
    said = refused(capsys, command, "ring:4", "--out", "net.xml")
    assert said == f"File must end in {formats}, not 'net.xml'"
    assert contents(Path()) == {}


def test_verilog_that_does_not_fit_leaves_all_files_that_were_there(capsys, monkeypatch):
    def write(text, *arguments):
        def cached_verilog(*_, name, **kinds):
            empty = f"module {name}(\n  clk\n);\n  input clk;\nendmodule\n"
            return text if name == DesignNames().crossing else empty

        monkeypatch.setattr(verilog_files, "cached_verilog", cached_verilog)
        return lambda: refused(capsys, "verilog", "ring:4", *arguments)

    write("old")
    assert main(["verilog", "ring:4"]) == 0
    capsys.readouterr()
    before = contents(Path("build"))
    assert len(before) == 12
    with file_limit(max(map(len, before.values()))):
        # The file before it could have been written.
        assert write("x" * 50_000)() == "build/multitree_link_crossing.v: File too large"
        assert contents(Path("build")) == before
    with file_limit(512):
        write("x" * 513, "--out", "other/folder")()
    assert not Path("other").exists()


@pytest.mark.slow
def test_yosys_that_fails_is_an_error_of_one_sentence(capsys, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("MULTITREE_CACHE", str(tmp_path_factory.mktemp("cache")))
    with file_limit(512):
        assert main(["verilog", "ring:4"]) == 1
    assert re.fullmatch(r"multitree: Yosys failed: [^\n]+\n", capsys.readouterr().err)
    assert contents(Path()) == {}
