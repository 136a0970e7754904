"""Switches that are written are the emulation's, and fit what is around them."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
import yaml

from multitree import (
    LinkModel,
    ScheduleError,
    Topology,
    TopologyError,
    build,
    exact,
    parse_topology,
    ring,
    verify,
)
from multitree.host.cli.verilog import Design
from multitree.host.design.network_top import switch_modules, switch_verilog
from multitree.host.design.verilog_files import write_verilog
from multitree.host.engines import Collective, Plan, needs_of
from multitree.host.rtl_engine import RtlEngine
from multitree.hw.codes import PORT_WIDTH
from multitree.nic.driver.config import SWITCH_MODULE_NAME, Config
from multitree.nic.driver.table import compile_table
from multitree.sim.analytic.engine import analytic
from multitree.sim.emulator import library
from multitree.sim.rtl import session
from multitree.sim.timing.sizing import config_for
from multitree.topology.checks.proofs import MOST_SWITCH_PORTS
from multitree.topology.collectives import Op
from multitree.topology.lowering import lowered, with_header_only_phase
from tests.cocotb.models.crossed import CROSSED, RESET, crossed_top
from tests.cocotb.models.network import wires
from tests.programs import start, verilator_variables
from tests.refusals import refuses
from tests.topology.graphs import both_ways, by_hand, star

WAIVER = RESET.parent / "card.vlt"
SHARED = Config(num_classes=1)


@pytest.fixture(
    scope="module", params=["fat_tree", pytest.param("bigraph", marks=pytest.mark.long)]
)
def written(request, tmp_path_factory):
    topology, config = CROSSED[request.param]
    folder = tmp_path_factory.mktemp("written")
    return topology, config, write_verilog(config, folder, topology=topology).paths


class AskedError(Exception):
    """Raised in place of what the emulation would go on to do."""


@pytest.mark.parametrize(
    ("spec", "num_classes", "wanted"),
    [
        ("fat_tree:2x2", 1, {"4x2": (4, 5), "2x2": (6, 7)}),
        ("fat_tree:4x4", 1, {"8x2": (16, 17, 18, 19), "4x2": (20, 21, 22, 23)}),
        ("fat_tree:3x3", 1, {"6x2": (9, 10, 11), "3x2": (12, 13, 14)}),
        ("bigraph:4x8", 2, {"8x4": tuple(range(32, 40))}),
        ("torus:4x4", 0, {}),
    ],
)
def test_each_shape_of_switch_is_one_module_named_after_ports_and_virtual_channels(
    spec, num_classes, wanted
):
    shapes = switch_modules(parse_topology(spec), Config(num_classes=num_classes))
    assert {shape.module: shape.nodes for shape in shapes} == {
        f"multitree_switch_{shape}": nodes for shape, nodes in wanted.items()
    }
    for shape in shapes:
        assert shape.module.startswith(f"multitree_switch_{shape.num_ports}x")


def spur(links):
    """Two ranks on a switch, which has another one behind it."""
    return Topology("spur", 2, 2, links, 16.0, 150.0)


SPUR = [(0, 2), (2, 0), (1, 2), (2, 1), (2, 3), (3, 2)]


def test_a_switch_at_the_end_of_one_link_has_the_two_ports_that_are_least():
    shapes = switch_modules(spur(SPUR), SHARED)
    assert [(shape.num_ports, shape.nodes) for shape in shapes] == [(2, (3,)), (3, (2,))]


@pytest.mark.parametrize(
    ("topology", "config", "message"),
    [
        (spur([*SPUR, (2, 1)]), SHARED, "spur: link 6 has no reverse link"),
        (spur(SPUR), Config(), "spur: interfaces must be built for shared links"),
    ],
)
def test_a_network_that_cannot_be_wired_is_refused(topology, config, message):
    with pytest.raises(TopologyError, match=message):
        switch_verilog(topology, config)


def routed(topology, links, classes=0):
    """One result from rank 0 to rank 1 over some links."""
    routes = [0, len(links)], [*links], [classes] * len(links)
    return by_hand(topology, [(0, Op.GATHER, 0, 0, 1)], "broadcast", 0, routes=routes)


def chain(num_switches, classes=0):
    """One result from rank 0 to rank 1 at the ends of a line of switches."""
    nodes = [0, *range(2, 2 + num_switches), 1]
    topology = both_ways("chain", 2, num_switches, [*itertools.pairwise(nodes)])
    return routed(topology, range(0, topology.num_links, 2), classes)


def around(num_ranks):
    """A result from rank 0 to all others around one switch."""
    rows = [(0, Op.GATHER, 0, 0, rank) for rank in range(1, num_ranks)]
    return by_hand(star(num_ranks), rows, "broadcast", 0)


def through_ranks(num_links):
    """The same over a line of ranks, where each has a router beside it, or with parallel links."""
    rows = [(0, Op.GATHER, 0, 0, 2), (0, Op.GATHER, 0, 0, 1)]
    line = both_ways("line", 3, 0, [(0, 1)] + [(1, 2)] * num_links)
    return by_hand(line, rows, "broadcast", 0, routes=([0, 2, 3], [0, 2, 0], [0, 0, 0]))


ASKED = {
    "verify": verify,
    "analytic": lambda schedule: analytic(schedule, 50),
    "exact": lambda schedule: exact(schedule, 50),
    "rtl": lambda schedule: compile_table(
        lowered(with_header_only_phase(schedule)),
        0,
        50,
        Config(num_ports=8, num_classes=2, max_children=64),
    ),
    "verilog": lambda schedule: Design(
        schedule, 800, LinkModel(), "sram", "multitree", dtypes=("int32",)
    ),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(
    ("schedule", "error", "message"),
    [
        (around(33), TopologyError, "star: ports of switch 33 must be at most 32, not 33"),
        (chain(10), ScheduleError, "chain: .*switches on the route must be at most 9, not 10"),
        (chain(2, classes=2), ScheduleError, "chain: .*class must be at most 1, not 2"),
        (
            routed(spur(SPUR), [0, 4, 5, 3]),
            ScheduleError,
            "spur: Row .*: route must not leave node 3 by the port that it came in by",
        ),
        (
            through_ranks(17),
            TopologyError,
            "line: ports of the router of rank 1 must be at most 32, not 36",
        ),
    ],
)
def test_what_no_switch_carries_out_is_refused_by_all_in_the_same_words(
    asked, schedule, error, message
):
    refuses(error, message, ASKED[asked], schedule)


@pytest.mark.parametrize("schedule", [around(32), chain(9, classes=1), through_ranks(3)])
def test_what_a_switch_just_carries_out_is_not_refused(schedule):
    assert 1 << PORT_WIDTH == MOST_SWITCH_PORTS
    for ask in (ASKED["verify"], ASKED["analytic"], ASKED["rtl"]):
        ask(schedule)


@pytest.mark.slow
def test_without_switches_nothing_else_is_written(tmp_path):
    config = Config(num_ports=1, dtypes=("int32",))
    plain = write_verilog(config, tmp_path / "plain").paths
    reported = write_verilog(config, tmp_path / "reported", topology=ring(2)).paths
    assert [(p.name, p.read_bytes()) for p in reported] == [(p.name, p.read_bytes()) for p in plain]


def module_of(text, name):
    """A module with all that it is made of, whatever numbers the names of its wires have."""
    begin = text.index(f"module {name}(")
    body, numbers = text[begin : text.index("// verilator lint_on", begin)], {}
    return re.sub(r"\$(\d+)\$", lambda m: f"${numbers.setdefault(m[1], len(numbers))}$", body)


@pytest.mark.long
def test_each_module_is_the_emulation_s_of_as_many_ports(written, monkeypatch):
    topology, config, _ = written
    text = switch_verilog(topology, config)

    def built(*_, more, **__):
        raise AskedError(more["Vswitch"])

    monkeypatch.setattr(library, "build_library", built)
    monkeypatch.setattr(library, "interface_verilog", lambda _: "")
    for shape in switch_modules(topology, config):
        with pytest.raises(AskedError) as asked:
            library.network_library(config, num_switch_ports=shape.num_ports)
        emulated, name = asked.value.args[0]
        assert name == SWITCH_MODULE_NAME
        emulated = emulated.replace(name, shape.module)
        assert module_of(emulated, shape.module) == module_of(text, shape.module)


@pytest.mark.parametrize("spec", ["fat_tree:2x4", "bigraph:2x4"])
def test_the_emulation_takes_the_largest_shape_and_the_sizes_that_are_written(spec, monkeypatch):
    topology, model = parse_topology(spec), LinkModel()
    schedule = build(topology, "multitree")
    memory = np.zeros((topology.num_ranks, 1000), np.float32)

    def asked_for(config, *, num_switch_ports, **_):
        raise AskedError(config, num_switch_ports)

    monkeypatch.setattr(session, "network_library", asked_for)
    with pytest.raises(AskedError) as asked:
        RtlEngine(topology, model).prepare(Collective.of(Plan(schedule), memory))
    emulated, num_switch_ports = asked.value.args
    config = config_for(topology, model, **needs_of(schedule, model, memory[0].nbytes))
    assert replace(config, dtypes=emulated.dtypes) == emulated
    assert num_switch_ports == max(s.num_ports for s in switch_modules(topology, config))


@pytest.mark.long
def test_the_file_tells_of_every_port_what_it_is_joined_with(written):
    topology, config, paths = written
    (text,) = [path.read_text() for path in paths if path.name == f"{SWITCH_MODULE_NAME}.v"]
    assert text.splitlines()[0] == "// SPDX-License-Identifier: Apache-2.0"
    reported, modules = [], {}
    for line in text.partition("\nmodule ")[0].splitlines():
        if found := re.fullmatch(r"// (rank|switch) (\d+)(?: is a (\w+))?:", line):
            kind, node = found[1], int(found[2])
            assert (kind == "rank") == (node < topology.num_ranks)
            modules |= {node: found[3]} if found[3] else {}
        elif found := re.fullmatch(r"//   link_(\d+) with link_(\d+) of (rank|switch) (\d+)", line):
            port, back, kind, far = int(found[1]), int(found[2]), found[3], int(found[4])
            assert (kind == "rank") == (far < topology.num_ranks)
            reported.append((node, port, far, back))
    assert sorted(reported) == sorted(wires(topology))
    shapes = switch_modules(topology, config)
    assert modules == {node: shape.module for shape in shapes for node in shape.nodes}
    assert re.findall(r"^module (\w+)\(", text, re.M) == [shape.module for shape in shapes]


@pytest.mark.slow
def test_the_core_lists_the_switches_behind_the_crossing(written):
    *files, core, _ = written[2]
    listed = yaml.safe_load(core.read_text().partition("\n")[2])["filesets"]
    names = ["multitree_nic.v", "multitree_link_crossing.v", "multitree_switch.v"]
    assert listed["rtl"]["files"] == names
    documents = listed["documents"]["files"]
    assert [*names, *documents] == [path.name for path in files[: len(names) + len(documents)]]


def lint(written, folder, change=lambda top: top):
    """What Verilator says, with all warnings, of a network of what is written."""
    topology, config, paths = written
    sources = [path for path in paths if path.suffix == ".v" and "_sim" not in path.stem]
    top = crossed_top("".join(path.read_text() for path in sources), topology, config)
    (folder / "network.v").write_text(change(top))
    command = ["verilator", "--lint-only", "-Wall", "--top-module", "network", WAIVER]
    files = [folder / "network.v", RESET, *sources]
    return start(*command, *files, status=None, **verilator_variables())


@pytest.mark.slow
@pytest.mark.dear
def test_interfaces_crossings_and_switches_fit_and_verilator_has_nothing_to_say(written, tmp_path):
    done = lint(written, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
def test_the_lint_notes_credits_that_are_too_few_at_either_side_of_a_crossing(written, tmp_path):
    nets = ("rank_0_core_link_0_tx_credit", "rank_0_link_0_rx_credit")

    def narrow(top):
        for net in nets:
            top, count = re.subn(rf"wire \[\d:0\] {net};", f"wire {net};", top)
            assert count == 1
        return top

    warnings = lint(written, tmp_path, narrow).stderr.split("%Warning-")[1:]
    assert all(any(w.startswith("WIDTH") and net in w for w in warnings) for net in nets)
