"""The command view: a page that plays what was asked for."""

from pathlib import Path

import pytest

from multitree.topology.algorithms.build import build
from multitree.topology.families.direct import torus
from multitree.topology.files.load_save import save_schedule
from tests.host.cli.commands import needs_rtl, printed_json
from tests.host.view.packed import data_of


def test_a_page_plays_what_was_asked_for(capsys):
    options = ["ring:6", "--algorithm", "ring", "--collective", "broadcast", "--root", "3"]
    data = printed_json(capsys, "view", *options, "--out", "page.html")
    assert (data["engine"], data["cycles"], data["size_bytes"]) == (None, None, None)
    header, _ = data_of(Path("page.html").read_text())
    assert (header["algorithm"], header["collective"], header["root"]) == ("ring", "broadcast", 3)
    assert data["page_bytes"] == Path("page.html").stat().st_size
    options = ["torus:4x4", "--size", "64KiB", "--dependency", "submessage"]
    data = printed_json(capsys, "view", *options, "--out", "page.html")
    ran = printed_json(capsys, "simulate", *options, "--engine", "analytic")
    assert (data["cycles"], data["dependency"]) == (ran["cycles"], "submessage")
    header, columns = data_of(Path("page.html").read_text())
    assert header["cycles"] == ran["cycles"] == columns["done"].max()


def test_a_page_plays_a_schedule_from_a_file_and_the_fastest_one(capsys):
    save_schedule(build(torus(3, 3), "multitree"), "plan.json")
    data = printed_json(capsys, "view", "plan.json", "--out", "page.html")
    assert data["topology"] == "plan.json" and data["num_ranks"] == 9
    options = ("torus:4x4", "--algorithm", "auto", "--size", "4KiB")
    data = printed_json(capsys, "view", *options, "--out", "page.html")
    best = printed_json(capsys, "explain", "torus:4x4", "--size", "4KiB")["candidates"][0]
    assert (data["algorithm"], data["cycles"]) == (best["algorithm"], best["cycles"])


@pytest.mark.slow
@needs_rtl
def test_a_page_plays_a_run_of_the_interfaces(capsys):
    options = ("--engine", "rtl", "--size", "4KiB", "--out", "page.html")
    data = printed_json(capsys, "view", "ring:4", *options)
    header, columns = data_of(Path("page.html").read_text())
    assert data["engine"] == header["engine"] == "rtl"
    assert data["cycles"] == header["cycles"] == columns["done"].max()
