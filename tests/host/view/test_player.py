"""Pages are drawn, played, scrubbed and used by keyboard, in Chromium."""

import functools
import re

import networkx
import numpy as np
import pytest

from multitree import LinkModel, Topology, build, load_topology, parse_topology, save_topology
from multitree.host.cli.main import main
from multitree.host.cli.table import table_rows
from multitree.host.engines import needs_of
from multitree.nic.driver.table import compile_table
from multitree.sim.analytic.engine import analytic
from multitree.sim.timing.sizing import config_for
from tests.host.view.chromium import Keys, Page, browser, needs_chromium

pytestmark = [pytest.mark.slow, pytest.mark.dear, needs_chromium]

SIZE_BYTES = 256 << 10
NETWORKS = {
    "torus": ("torus:8x8", "multitree", None),
    "mesh": ("mesh:8x8", "multitree", SIZE_BYTES),
    "fat_tree": ("fat_tree:8x8", "multitree", None),
    "bigraph": ("bigraph:4x16", "multitree", SIZE_BYTES),
    "dgx2": ("dgx2", "multitree", None),
    "file": ("cities.graphml", "multitree", None),
    "waves": ("torus:8x8", "forest", None),
}
IN_CYCLES = {"waves_in_cycles": ("mesh:3x3", "forest", SIZE_BYTES)}
CITIES = "Seattle Sunnyvale Los_Angeles Denver Kansas_City Houston Chicago Indianapolis Atlanta"
CABLES = [(0, 1), (0, 3), (1, 2), (1, 3), (2, 5), (3, 4), (4, 5), (4, 7), (5, 8), (6, 7), (7, 8)]
MODEL = LinkModel()
REST = 0.62


class Played:
    """A page, and what it has to show."""

    def __init__(self, folder, name):
        spec, algorithm, size_bytes = (NETWORKS | IN_CYCLES)[name]
        if name == "file":
            names = CITIES.split()
            graph = networkx.Graph([(names[a], names[b]) for a, b in CABLES])
            save_topology(Topology.from_networkx(graph, name="cities"), folder / spec)
            spec = str(folder / spec)
        self.path = folder / f"{name}.html"
        arguments = ["view", spec, "--algorithm", algorithm, "--out", str(self.path)]
        arguments += [] if size_bytes is None else ["--size", str(size_bytes)]
        assert main(arguments) == 0
        topology = load_topology(spec) if name == "file" else parse_topology(spec)
        # A forest suits the size that it is built for.
        num_flits = None if size_bytes is None else MODEL.num_flits(size_bytes, 1)
        suited = None if num_flits is None else MODEL.cost_model(topology, num_flits)
        self.schedule = schedule = build(topology, algorithm, cost_model=suited)
        shape = (schedule.num_waves, schedule.num_transfers)
        if size_bytes is None:
            waves = np.arange(schedule.num_waves)[:, None] * schedule.period
            self.sent = np.broadcast_to(schedule.step + waves, shape)
            self.arrived = self.sent + 1
            self.duration = int(self.arrived.max())
        else:
            trace = analytic(schedule, num_flits, MODEL)
            self.sent, self.arrived = trace.sent, trace.arrived
            self.duration = trace.cycles
        self.in_cycles = size_bytes is not None

    def at(self, time, tree=None):
        """Messages in flight, whether they add, and the links that they are on."""
        flying = (self.sent <= time) & (self.arrived > time)
        if tree is not None:
            flying &= self.schedule.flow == tree
        rows = np.nonzero(flying)[1]
        offsets, links = self.schedule.route_offsets, self.schedule.route_links
        busy = set()
        for row in rows:
            busy |= set(links[offsets[row] : offsets[row + 1]].tolist())
        adds = int((self.schedule.op[rows] == 0).sum())
        return len(rows), adds, len(rows) - adds, len(busy)

    def said_by(self, summary):
        """The same numbers as the page's summary has them."""
        if "no message" in summary:
            return 0, 0, 0, 0
        found = re.search(
            r"([\d\u202f]+) messages?\b.* on ([\d\u202f]+) of .* \(([\d\u202f]+) add, "
            r"([\d\u202f]+) deliver\)",
            summary,
        )
        flying, busy, adds, delivers = (int(re.sub(r"\D", "", part)) for part in found.groups())
        return flying, adds, delivers, busy


@pytest.fixture(scope="module")
def driver():
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Pages by their names, each made once."""
    return functools.cache(lambda name: Played(tmp_path_factory.mktemp(name), name))


@pytest.fixture(params=NETWORKS)
def played(request, networks):
    return networks(request.param)


def check_silent(page):
    """Raise if the page has complained, or asked for anything but itself."""
    said, asked = page.logs()
    assert said == []
    assert {url.split("#")[0] for url in asked} == {page.path.as_uri()}
    assert page.value("problem", "hidden")


@pytest.fixture
def show(driver):
    """Opens pages, none of which has complained when the next is opened or the test is over."""
    opened = []

    def show(played, address="", **how):
        for page in opened[-1:]:
            check_silent(page)
        opened.append(Page(driver, played.path, address, **how))
        return opened[-1]

    yield show
    check_silent(opened[-1])


@pytest.fixture
def page(show, played):
    return show(played)


@pytest.fixture
def torus(networks):
    """What every test uses that is not of one network more than another."""
    return networks("torus")


def test_a_page_is_drawn_in_light_and_dark_and_asks_for_nothing(show, played):
    pictures = []
    for dark in (False, True):
        page = show(played, dark=dark)
        count, colours = page.painted()
        assert count > 5000 and colours > 20
        assert page.run("return document.documentElement.dataset.theme") == ["light", "dark"][dark]
        pictures.append(page.picture())
    assert pictures[0] != pictures[1]
    page.click("theme")
    assert page.text("theme") == "Theme: light"
    assert page.picture() == pictures[0]


def test_every_time_that_is_scrubbed_to_shows_what_is_in_flight(page, played):
    seen = set()
    for part in (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1):
        time = np.floor(part * (played.duration - 1)) + REST if part < 1 else played.duration
        page.choose("scrubber", float(time))
        assert played.said_by(page.text("summary")) == played.at(time)
        assert page.text("live") == page.text("summary")
        seen.add(page.picture())
    assert len(seen) >= 6
    assert page.text("readout").startswith("Cycle" if played.in_cycles else "End")
    ranks = played.schedule.topology.num_ranks
    assert f"{ranks} of {ranks} ranks done" in page.text("summary")


def test_waves_of_a_run_have_cycles_of_their_own(show, networks):
    played = networks("waves_in_cycles")
    page = show(played)
    for part in (0.2, 0.6, 0.9):
        time = float(np.floor(part * played.duration))
        page.choose("scrubber", time)
        assert played.said_by(page.text("summary")) == played.at(time)


NAMES_DRAWN = """
const canvas = CanvasRenderingContext2D.prototype;
const [fill, stroke] = [canvas.fillText, canvas.stroke];
window.drawn = [];
canvas.fillText = function (text, x, y) {
  window.drawn.push([text, x, y, this.measureText(text).width, this.canvas.id]);
  fill.call(this, text, x, y);
};
canvas.stroke = function (...given) {
  window.drawn.push(["a line", 0, 0, 0, this.canvas.id]);
  stroke.apply(this, given);
};
"""


@pytest.mark.parametrize("width", [1280, 400])
def test_names_cover_neither_each_other_nor_lie_under_lines(show, networks, width):
    played = networks("file")
    page = show(played, size=(width, 900))
    page.run(NAMES_DRAWN)
    page.choose("node", "4")
    calls = [each for each in page.run("return window.drawn") if each[-1] == "network"]
    last_line = max(index for index, each in enumerate(calls) if each[0] == "a line")
    names = [each[:4] for each in calls[last_line + 1 :] if not each[0].isdigit()]
    shown = {text for text, *_ in names}
    assert "Kansas_City" in shown and len(shown) >= 6 and shown <= set(CITIES.split())
    wide = page.run("return document.getElementById('network').clientWidth")
    for text, x, y, length in names:
        assert length / 2 <= x <= wide - length / 2
        for other, ox, oy, also in names:
            assert text == other or abs(x - ox) >= (length + also) / 2 or abs(y - oy) >= 11


@pytest.mark.parametrize("width", [1280, 400])
def test_a_table_shows_that_there_is_more_of_it(show, networks, width):
    page = show(networks("torus"), size=(width, 900))
    more, ground, edges = page.run(
        "const e = document.getElementById('rows-scroll'), style = getComputedStyle(e);"
        "return [e.scrollHeight > e.clientHeight, style.backgroundAttachment,"
        " style.backgroundSize]"
    )
    # Shades stay at the edges, and what covers them at the end of the table moves with it.
    assert more and ground == ", ".join(["local"] * 4 + ["scroll"] * 4)
    assert edges.count("100%") == 8


def test_ranks_are_filled_as_they_are_done(driver, played):
    page, green = Page(driver, played.path), []
    for time in (0, 0.6 * played.duration, played.duration):
        page.choose("scrubber", float(time))
        green.append(page.pixels_of("done"))
    assert green[0] == 0 < green[1] < green[2] / 2


def test_a_page_plays_to_the_end_and_can_be_paused(page, played):
    page.click("first")
    page.press(" ", on="drawing")
    page.until("document.getElementById('scrubber').value > 0")
    assert page.text("play") == "Pause"
    page.press(" ")
    assert page.text("play") == "Play"
    stopped = page.value("scrubber")
    page.settle()
    assert page.value("scrubber") == stopped
    page.choose("speed", "16")
    page.choose("scrubber", played.duration * 0.97)
    page.click("play")
    page.until("document.getElementById('play-text').textContent === 'Play'")
    assert float(page.value("scrubber")) == played.duration


def test_one_tree_is_picked_and_only_its_messages_are_shown(page, played):
    everything = page.picture()
    tree = played.schedule.num_flows - 1
    page.press("[", on="drawing")
    assert int(page.value("tree")) == tree
    assert page.picture() != everything
    rows = np.flatnonzero(played.schedule.flow == tree)
    for time in (played.sent[0, rows].min() + REST, played.sent[-1, rows].max() + REST):
        page.choose("scrubber", float(time))
        assert played.said_by(page.text("summary")) == played.at(time, tree)
    root = int(played.schedule.flow_roots[tree])
    assert f"of tree {tree}, whose root is rank {root}" in page.text("summary")
    page.choose("node", str(root))
    # Of the whole run, at any time of it.
    count = int((played.schedule.dst == root).sum()) * played.schedule.num_waves
    assert f"receives {count} messages; root of" in page.text("node-facts")
    head, shown = page.table("rows")
    assert {row[head.index("Tree")] for row in shown} <= {str(tree)}
    page.press(Keys.ESCAPE, on="drawing")
    assert page.value("tree") == "-1"


def test_keys_move_time_and_change_what_is_shown(page, played):
    page.press(Keys.HOME, on="drawing")
    page.run("document.activeElement.blur()")
    assert float(page.value("scrubber")) == 0
    page.press(Keys.ARROW_RIGHT)
    first = float(page.value("scrubber"))
    assert first == (max(round(played.duration / 100), 1) if played.in_cycles else REST)
    page.press(Keys.ARROW_RIGHT)
    assert float(page.value("scrubber")) > first
    page.press(Keys.ARROW_LEFT)
    assert float(page.value("scrubber")) == pytest.approx(first, abs=1)
    page.press(Keys.END)
    assert float(page.value("scrubber")) == played.duration
    page.press(Keys.PAGE_UP)
    assert float(page.value("scrubber")) == pytest.approx(0.9 * played.duration)
    page.press(Keys.HOME, Keys.ARROW_RIGHT)
    pictures = [page.picture()]
    for wanted in ("far", "all", "now"):
        page.press("l")
        chosen = "return document.querySelector('input[name=show]:checked').value"
        assert page.run(chosen) == wanted
        pictures.append(page.picture())
    assert pictures[0] == pictures[3] and len(set(pictures)) == 3
    page.press("n")
    assert page.value("numbers", "checked")
    page.press("s")
    assert page.value("speed") == "2"
    page.press("+")
    assert page.picture() not in pictures
    page.press("0", "n")
    assert page.picture() == pictures[0]
    page.press("?")
    assert page.value("keys", "open")
    page.press(Keys.ESCAPE)
    assert not page.value("keys", "open")


def test_arrow_keys_in_the_drawing_pick_neighbours(show, torus):
    page = show(torus, "node=9&time=3.62")
    for way, rank in (("RIGHT", 10), ("DOWN", 18), ("LEFT", 17), ("UP", 9)):
        page.press(getattr(Keys, f"ARROW_{way}"), on="drawing")
        assert page.text("node-title") == f"Rank {rank}" and page.value("node") == str(rank)
    assert float(page.value("scrubber")) == 3.62
    page.until("location.hash.includes('node=9')")


def test_a_trace_is_followed_from_event_to_event(show, networks):
    played = networks("mesh")
    page = show(played)
    page.press(Keys.HOME, on="drawing")
    page.run("document.activeElement.blur()")
    events = np.unique(np.concatenate([played.sent.ravel(), played.arrived.ravel()]))
    for event in events[:5]:
        page.press(Keys.SHIFT, Keys.ARROW_RIGHT)
        assert float(page.value("scrubber")) == event


def test_letters_can_be_switched_off(show, torus):
    page = show(torus)
    page.click("help")
    page.click("letters")
    page.press(Keys.ESCAPE)
    page.press("n", on="drawing")
    assert not page.value("numbers", "checked")


def table_of(played, rank):
    """A rank's rows as `multitree table` has them."""
    schedule = played.schedule
    config = config_for(schedule.topology, MODEL, **needs_of(schedule, MODEL, SIZE_BYTES))
    compiled = compile_table(schedule, rank, MODEL.num_flits(SIZE_BYTES, 1), config)
    return table_rows(compiled, schedule, MODEL.flit_bytes)


def number(text):
    return int(re.sub(r"\D", "", text))


@pytest.mark.parametrize("part", [0.3, 0.75])
def test_the_table_is_the_interface_s_with_the_state_of_each_row(show, played, part):
    topology = played.schedule.topology
    time = float(np.floor(part * played.duration) + REST)
    for rank in (0, topology.num_ranks // 2 + 1):
        page = show(played, f"node={rank}&time={time}")
        assert page.text("node-title") == f"Rank {topology.label(rank)}"
        head, shown = page.table("rows")
        expected = table_of(played, rank)
        assert len(shown) == len(expected)
        for cells, row in zip(shown, expected, strict=True):
            found = dict(zip(head, cells, strict=True))
            step = f"{row['step']} +{row['stage']}" if row["stage"] else str(row["step"])
            assert (int(found["Row"]), found["Step"]) == (row["row"], step)
            assert (found["Op"], int(found["Tree"])) == (row["op"], row["flow_id"])
            assert found["To"] == topology.label(row["destination"])
            assert int(found["Port"]) == row["port"]
            if played.in_cycles:
                assert number(found["Flits"]) == row["size_flits"]
            check_state(played, rank, row, found, time)


def check_state(played, rank, row, found, time):
    """Raise unless a line of the table says how far its row is, and what it waits for."""
    schedule = played.schedule
    mine = (schedule.src == rank) & (schedule.flow == row["flow_id"])
    mine &= (schedule.dst == row["destination"]) & (schedule.op == (row["op"] == "GATHER"))
    mine &= schedule.step == row["step"] + row["stage"] * schedule.period
    (index,) = np.flatnonzero(mine)
    open_waves = np.flatnonzero(played.arrived[:, index] > time)
    wave = int(open_waves[0]) if len(open_waves) else schedule.num_waves - 1
    state = "● arrived" if not len(open_waves) else "○ waits"
    if len(open_waves) and played.sent[wave, index] <= time:
        state = "◐ in flight"
    assert found["State"] == state
    if schedule.num_waves > 1:
        assert found["Wave"] == f"{wave + 1}/{schedule.num_waves}"
    before = (schedule.flow == row["flow_id"]) & (schedule.step < schedule.step[index])
    awaited = np.flatnonzero(before & (schedule.dst == rank))
    come = int((played.arrived[wave, awaited] <= time).sum())
    if not len(awaited):
        assert found["Waits for"] == "nothing"
    elif len(awaited) > 3:
        assert found["Waits for"].startswith(f"{come} of {len(awaited)}")
    else:
        assert found["Waits for"].count("✓") == come
        assert set(re.findall(r"\d+", found["Waits for"])) == set(map(str, schedule.src[awaited]))


def test_links_of_the_node_have_their_numbers(show, played):
    topology, schedule = played.schedule.topology, played.schedule
    page = show(played, f"node=0&time={played.duration}")
    head, shown = page.table("ports")
    links = topology.ports(0)
    if played.in_cycles:
        per_row = np.diff(schedule.chunks(MODEL.num_flits(SIZE_BYTES, 1)))[schedule.flow]
    else:
        per_row = np.ones(schedule.num_transfers, int)
    hops = np.diff(schedule.route_offsets)
    total = np.bincount(
        schedule.route_links, np.repeat(per_row, hops) * schedule.num_waves, topology.num_links
    )
    for cells, link in zip(shown, links, strict=True):
        found = dict(zip(head, cells, strict=True))
        assert int(found["Port"]) == topology.link_ports[link]
        assert found["To"] == topology.label(int(topology.links[link, 1]))
        assert number(found["So far"]) == number(found["In all"]) == total[link]


def test_what_the_keyboard_reaches_has_a_name(page):
    reached = page.names()
    assert len(reached) > 20
    assert [role for role, name in reached if not name.strip() and role != "RootWebArea"] == []
    assert page.run("return document.getElementById('scrubber').getAttribute('aria-valuetext')")
    assert page.run("return document.getElementById('live').getAttribute('aria-live')") == "polite"


def test_with_reduced_motion_pictures_follow_each_other_without_motion(show, torus):
    page = show(torus, calm=True)
    page.run(
        "window.seen = new Set();"
        "setInterval(() => seen.add(Number(document.getElementById('scrubber').value)), 10)"
    )
    page.choose("speed", "4")
    page.click("play")
    page.until("seen.size > 5")
    page.click("play")
    assert {round(time % 1, 6) for time in page.run("return [...seen]")} == {REST}


def test_an_address_leads_to_a_moment_and_nonsense_in_it_to_none(show, torus):
    page = show(torus, "time=12.5&node=20&tree=7&show=far")
    assert (float(page.value("scrubber")), page.value("node")) == (12.5, "20")
    assert page.value("tree") == "7"
    page = show(torus, "time=x&node=-4&tree=99999&show=<b>&time=3")
    assert (float(page.value("scrubber")), page.value("node")) == (REST, "0")
    assert page.value("tree") == "-1"


def test_an_address_is_kept_once_where_time_changes_often(show, torus):
    page = show(torus)
    page.run(
        "window.kept = 0; const keep = history.replaceState;"
        "history.replaceState = (...all) => { kept++; keep.apply(history, all); };"
    )
    for place in np.linspace(0.5, 20, 40):
        page.choose("scrubber", float(place))
    page.until("location.hash.includes('time=20&')")
    assert page.run("return kept") < 20


def test_a_page_loads_nothing_even_on_request(driver, torus):
    page = Page(driver, torus.path)
    outcome = driver.execute_async_script(
        "fetch('http://127.0.0.1:9/').then(() => arguments[0]('loaded'), () => arguments[0]('no'))"
    )
    assert outcome == "no"
    said, _ = page.logs()
    assert any("Content Security Policy" in line for line in said)


@pytest.mark.parametrize("size", [(360, 740), (800, 1000), (1440, 900), (2200, 1300)], ids=str)
def test_nothing_is_cut_off_at_any_width(show, played, size):
    page = show(played, size=size)
    wide = "document.documentElement.scrollWidth, document.documentElement.clientWidth"
    inside, width = page.run(f"return [{wide}]")
    assert inside <= width
    cut = page.run(
        """
        return Array.from(document.querySelectorAll('button, label, h1, h2, p, output, legend'))
          .filter((e) => e.offsetParent && !e.classList.contains('hidden'))
          .filter((e) => getComputedStyle(e).display !== 'inline')
          .filter((e) => e.scrollWidth > e.clientWidth + 2)
          .map((e) => e.id || e.textContent);
        """
    )
    assert cut == []


@pytest.mark.long
def test_broken_data_are_said_to_be(driver, torus, tmp_path):
    page = torus.path.read_text()
    path = tmp_path / "broken.html"
    path.write_text(re.sub(r'(id="data">)[^<]{400}', r"\1", page))
    opened = Page(driver, path)
    assert not opened.value("problem", "hidden")
    assert opened.text("problem").startswith("This page cannot be played: ")
