"""The command view: a page that plays what was asked for."""

from pathlib import Path

import pytest

from multitree import build, save_schedule, torus
from tests.emulation import needs_rtl
from tests.host.view.packed import data_of


def played(run, line):
    """What the command prints, and header and columns of its page."""
    data = run.json(f"view {line} --out page.html")
    return data, *data_of(Path("page.html").read_text())


def test_a_page_plays_what_was_asked_for(run):
    line = "ring:6 --algorithm ring --collective broadcast --root 3"
    data, header, _ = played(run, line)
    assert (data["engine"], data["cycles"], data["size_bytes"]) == (None, None, None)
    assert (header["algorithm"], header["collective"], header["root"]) == ("ring", "broadcast", 3)
    assert data["page_bytes"] == Path("page.html").stat().st_size
    line = "torus:4x4 --size 64KiB --dependency submessage"
    data, header, columns = played(run, line)
    ran = run.json(f"simulate {line} --engine analytic")
    assert (data["cycles"], data["dependency"]) == (ran["cycles"], "submessage")
    assert header["cycles"] == ran["cycles"] == columns["done"].max()


def test_a_page_plays_a_schedule_from_a_file_and_the_fastest_one(run):
    save_schedule(build(torus(3, 3), "multitree"), "plan.json")
    data, *_ = played(run, "plan.json")
    assert data["topology"] == "plan.json" and data["num_ranks"] == 9
    data, *_ = played(run, "torus:4x4 --algorithm auto --size 4KiB")
    best = run.json("explain torus:4x4 --size 4KiB")["candidates"][0]
    assert (data["algorithm"], data["cycles"]) == (best["algorithm"], best["cycles"])


@pytest.mark.slow
@needs_rtl
def test_a_page_plays_a_run_of_the_interfaces(run):
    data, header, columns = played(run, "ring:4 --engine rtl --size 4KiB")
    assert data["engine"] == header["engine"] == "rtl"
    assert data["cycles"] == header["cycles"] == columns["done"].max()
