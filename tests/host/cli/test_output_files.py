"""What a command writes is whole, or what was there before stays."""

import re
from pathlib import Path

import pytest

from multitree.host.cli.schedule import SCHEDULE_SUFFIXES, TOPOLOGY_SUFFIXES
from multitree.host.design import verilog_files
from multitree.host.design.names import DesignNames
from tests.topology.test_file_io import contents, file_limit


@pytest.mark.parametrize(
    ("line", "size"),
    [
        *((f"topology {{}} --out kept{suffix}", 8) for suffix in TOPOLOGY_SUFFIXES),
        *((f"schedule {{}} --out kept{suffix}", 8) for suffix in SCHEDULE_SUFFIXES),
        ("view {} --out kept.html", 3),
        ("simulate {} --engine analytic --trace kept.json.gz", 3),
        ("simulate {} --engine analytic --trace kept.json", 3),
    ],
)
def test_a_file_that_does_not_fit_leaves_the_one_that_was_there(run, line, size):
    run.printed(line.format("torus:2x2"))
    before = contents(Path())
    with file_limit(512):
        says = run.refused(line.format(f"torus:{size}x{size}"))
    path = line.split()[-1]
    assert says in [f"{path}:{why} File too large" for why in ("", " file must be writable, not:")]
    assert contents(Path()) == before


def test_verilog_that_does_not_fit_leaves_all_files_that_were_there(run, monkeypatch):
    def write(text, options=""):
        def cached_verilog(*_, name, **kinds):
            empty = f"module {name}(\n  clk\n);\n  input clk;\nendmodule\n"
            return text if name == DesignNames().crossing else empty

        monkeypatch.setattr(verilog_files, "cached_verilog", cached_verilog)
        return lambda: run.refused(f"verilog ring:4 {options}")

    write("old")
    run.printed("verilog ring:4")
    before = contents(Path("build"))
    assert len(before) == 12
    with file_limit(max(map(len, before.values()))):
        # The file before it could have been written.
        assert write("x" * 50_000)() == "build/multitree_link_crossing.v: File too large"
        assert contents(Path("build")) == before
    with file_limit(512):
        write("x" * 513, "--out other/folder")()
    assert not Path("other").exists()


@pytest.mark.slow
def test_yosys_that_fails_is_an_error_of_one_sentence(run, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("MULTITREE_CACHE", str(tmp_path_factory.mktemp("cache")))
    with file_limit(512):
        status, _, error = run("verilog ring:4")
    assert status == 1 and re.fullmatch(r"multitree: Yosys failed: [^\n]+\n", error)
    assert contents(Path()) == {}


def test_a_cache_that_cannot_be_written_is_as_any_file(run, monkeypatch, tmp_path):
    monkeypatch.setenv("MULTITREE_CACHE", "/dev/null/cache")
    said = run.refused("verilog ring:4")
    assert said.startswith("Cache folder /dev/null/cache must be writable, but: Not a directory")
