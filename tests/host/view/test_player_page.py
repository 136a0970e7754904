"""A page holds a schedule and its trace, in few bytes, and nothing from outside."""

import base64
import hashlib
import re
from dataclasses import replace

import numpy as np
import pytest

from multitree import LinkModel, ScheduleError, build, parse_topology
from multitree.host.view import player_page
from multitree.host.view.player_page import FOLDER, SCRIPTS, Recording, packed, page_of
from multitree.sim.analytic.engine import analytic
from tests.host.view.packed import data_of, unpacked
from tests.refusals import refuses

MODEL = LinkModel()


def made(spec, algorithm="multitree", size_bytes=None):
    """A recording of a schedule, or of its run by the analytic engine."""
    schedule = build(parse_topology(spec), algorithm)
    if size_bytes is None:
        return Recording(schedule)
    trace = analytic(schedule, MODEL.num_flits(size_bytes, 1), MODEL)
    return Recording(schedule, trace, size_bytes, MODEL)


@pytest.mark.parametrize(
    "values",
    [
        *([], [0], [5, 5, 5], [-1, 3, -200, 70_000, -(2**40), 2**51], list(range(1000))),
        np.random.default_rng(1).integers(-(2**33), 2**33, 500),
    ],
    ids=["none", "zero", "same", "wide", "even", "random"],
)
def test_columns_come_back_as_they_were(values):
    data = packed({"a": [1, None, "ü"]}, {"x": np.array(values, int), "y": [7]})
    header, columns = unpacked(data)
    assert header["a"] == [1, None, "ü"]
    assert columns["x"].tolist() == list(values)
    assert columns["y"].tolist() == [7]


def test_even_columns_take_next_to_nothing():
    assert len(packed({}, {"x": np.arange(100_000), "y": np.full(100_000, 2**40)})) < 1000


@pytest.mark.parametrize(
    ("spec", "algorithm"),
    [("torus:4x4", "multitree"), ("fat_tree:4x4", "multitree"), ("mesh:3x3", "forest")],
)
def test_a_page_holds_the_schedule_and_its_trace(spec, algorithm):
    given = made(spec, algorithm, 64 << 10)
    header, columns = data_of(page_of(given))
    schedule, trace = given.schedule, given.trace
    assert header["schedule_hash"] == schedule.hash
    assert (header["num_waves"], header["period"]) == (schedule.num_waves, schedule.period)
    assert (header["cycles"], header["engine"]) == (trace.cycles, "analytic")
    for field in ("step", "op", "flow", "src", "dst", "order"):
        assert (columns[f"row_{field}"] == getattr(schedule, field)).all()
    assert (np.cumsum(columns["row_hops"]) == schedule.route_offsets[1:]).all()
    assert (columns["route_links"] == schedule.route_links).all()
    assert (columns["flow_root"] == schedule.flow_roots).all()
    sent = np.cumsum(columns["sent"].reshape(trace.sent.shape), axis=0)
    taken = np.cumsum(columns["taken"].reshape(trace.sent.shape), axis=0)
    assert (sent == trace.sent).all() and (sent + taken == trace.arrived).all()
    assert (columns["done"] == trace.done).all()
    flits = np.repeat(columns["flow_flits"][schedule.flow], columns["row_hops"])
    on_links = np.bincount(schedule.route_links, flits * schedule.num_waves)
    assert (on_links == trace.link_flits).all()


def test_links_and_nodes_of_a_page_are_those_of_the_topology():
    topology = parse_topology("dgx_a100:2")
    _, columns = data_of(page_of(Recording(build(topology, "multitree"))))
    assert (columns["link_src"] == topology.links[:, 0]).all()
    assert (columns["link_dst"] == topology.links[:, 1]).all()
    assert (columns["link_port"] == topology.link_ports).all()
    assert (columns["link_mbytes_per_s"] == 1000 * topology.bandwidth_gbytes_per_s).all()
    assert (columns["link_rate"] == 1e6 * topology.bandwidth_gbytes_per_s / 16).all()
    assert len(columns["node_x"]) == len(columns["node_y"]) == topology.num_nodes
    assert columns["link_corners"].sum() == len(columns["curve_x"]) == len(columns["curve_y"])


def test_without_a_trace_the_run_lasts_all_steps_of_all_waves():
    one, waves = made("torus:4x4"), made("torus:4x4", "forest")
    assert one.duration == one.schedule.num_steps == 8
    last = int(waves.schedule.step.max()) + (waves.schedule.num_waves - 1) * waves.schedule.period
    assert waves.duration == last + 1
    header, columns = data_of(page_of(one))
    assert header["engine"] is None and header["size_bytes"] is None and "sent" not in columns


def test_more_messages_than_a_page_plays_are_refused(monkeypatch):
    schedule = build(parse_topology("torus:4x4"), "multitree")
    monkeypatch.setattr(player_page, "MOST_MESSAGES", 480)
    Recording(schedule)
    monkeypatch.setattr(player_page, "MOST_MESSAGES", 479)
    refuses(ScheduleError, r"at most 479 in a page, not 480", Recording, schedule)
    refuses(ScheduleError, r"not 960", Recording, replace(schedule, num_waves=2, period=8))


def test_names_from_a_file_are_text_and_nothing_else():
    hostile = '</script><script>alert(1)</script>@DATA@"&'
    names = ("</title><b>", "@STYLE@", "<!--")
    topology = replace(parse_topology("ring:3"), name=hostile, family="custom", names=names)
    page = page_of(Recording(build(topology, "ring")))
    assert "alert(1)</script>" not in page and "</title><b>" not in page
    assert page.count("<script") == page.count("</script>") == 2
    header, _ = data_of(page)
    assert header["topology"] == hostile
    assert header["names"] == list(names)


def test_the_policy_of_a_page_allows_its_own_script_and_style_and_no_address():
    page = page_of(made("ring:3"))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for kind in ("style", "script"):
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    assert set(rules) == {"default-src", "style-src", "script-src", "base-uri", "form-action"}


def test_a_page_names_no_address_and_has_no_mark_left():
    page = page_of(made("ring:3"))
    assert not re.search(r"https?:|//[a-z]|\bimport\b|src=|href=\"(?!#)|url\(", page)
    assert not re.search(r"@[A-Z]+@", page)


def test_equal_recordings_are_equal_pages():
    one, other = (page_of(made("torus:3x3", size_bytes=4096)) for _ in range(2))
    assert one == other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "algorithm", "size_bytes", "most_bytes"),
    [
        ("torus:8x8", "multitree", None, 1_000_000),
        ("torus:8x8", "multitree", 1 << 20, 1_000_000),
        ("mesh:8x8", "multitree", 32 << 10, 1_000_000),
        ("mesh:8x8", "forest", 64 << 20, 1_000_000),
        ("torus:16x16", "multitree", 1 << 20, 2_000_000),
        ("torus:16x16", "multitree", 32 << 10, 2_000_000),
    ],
)
def test_pages_are_small(spec, algorithm, size_bytes, most_bytes):
    assert len(page_of(made(spec, algorithm, size_bytes)).encode()) <= most_bytes


def test_every_part_of_the_page_is_used_and_short():
    parts = {path.name for path in FOLDER.iterdir()}
    assert parts == {"page.html", "page.css", *(f"{name}.js" for name in SCRIPTS)}
    for name in parts:
        assert (FOLDER / name).read_text().count("\n") <= 400, name


def colours(theme):
    """Colours of a theme by their names, as in the style sheet."""
    sheet = (FOLDER / "page.css").read_text()
    blocks = dict(re.findall(r"(:root\S*) \{(.*?)\n\}", sheet, re.S))
    block = blocks[":root" if theme == "light" else ':root[data-theme="dark"]']
    return dict(re.findall(r"--([\w-]+): (#\w{6})", block))


def luminance(colour):
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """From 1 to 21, as WCAG 2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_signs_stand_out_from_their_ground(theme):
    found = colours(theme)
    texts = [
        *(("ink", ground) for ground in ("card", "ground", "button", "node", "active-row")),
        *(("muted", ground) for ground in ("card", "ground", "switch")),
        ("on-strong", "strong"),
        ("on-done", "done"),
    ]
    names = ("reduce", "gather", "done", "chosen", "node-edge", "load-5")
    signs = [(name, "card") for name in names]
    for pairs, least in ((texts, 4.5), (signs, 3.0)):
        for one, other in pairs:
            assert contrast(found[one], found[other]) >= least, (one, other)
    loads = [contrast(found[f"load-{k}"], found["card"]) for k in range(1, 6)]
    assert loads == sorted(loads) and set(colours("dark")) == set(colours("light"))
