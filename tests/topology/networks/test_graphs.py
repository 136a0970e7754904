"""What a graph says of its links is read, refused or reported, never just dropped."""

import re
import warnings

import networkx as nx
import numpy as np
import pytest

from multitree import Topology, TopologyError, TopologyWarning, among, build, parse_topology
from multitree.topology.files.load_save import load_file, load_topology
from tests.refusals import refuses
from tests.topology.graphs import over, reloaded


def square(**values):
    """A cycle of four named nodes whose links have attributes, the first link four times each."""
    graph = nx.relabel_nodes(nx.cycle_graph(4), dict(enumerate("wxyz")))
    for index, (_, _, data) in enumerate(graph.edges(data=True)):
        data.update({name: value * (1 if index else 4) for name, value in values.items()})
    return graph


def from_file(tmp_path, graph, **keys):
    nx.write_graphml(graph, tmp_path / "net.graphml")
    return load_topology(tmp_path / "net.graphml", **keys)


def from_graph(_, graph, **keys):
    return Topology.from_networkx(graph, **keys)


readers = pytest.mark.parametrize("read", [from_file, from_graph])
SPEEDS = ["bandwidth", "capacity", "bandwidth_gbps", "linkSpeed", "Throughput (GB/s)", "BW", "Gbps"]
DELAYS = ["latency", "latency_us", "delay", "propagationDelay", "rtt"]


@readers
@pytest.mark.parametrize("name", [*SPEEDS, *DELAYS, "weight"])
def test_speed_or_latency_by_another_name_is_refused_with_what_to_do(read, name, tmp_path):
    with pytest.raises(TopologyError) as caught:
        read(tmp_path, square(**{name: 2.5}))
    reported = str(caught.value)
    assert f"attribute {name!r} of links must be called" in reported
    assert ("--bandwidth-key NAME:UNIT" in reported) == (name in SPEEDS or name == "weight")
    assert ("--latency-key NAME:UNIT" in reported) == (name in DELAYS or name == "weight")


@readers
@pytest.mark.parametrize(
    ("unit", "gbytes_per_s"),
    [
        *(("GB/s", 40.0), ("Gb/s", 5.0), ("Gbps", 5.0), ("Gbit/s", 5.0), ("MB/s", 0.04)),
        *(("Mbps", 0.005), ("TB/s", 4e4), ("bps", 5e-9), ("GiB/s", 40 * 2**30 / 1e9)),
    ],
)
def test_a_key_says_which_attribute_is_the_speed_and_in_what_unit(
    read, unit, gbytes_per_s, tmp_path
):
    graph = square(**{"a:b capacity": 40.0})
    topology = read(tmp_path, graph, bandwidth_key=f"a:b capacity:{unit}")
    first = np.isin(topology.links, [0, 1]).all(axis=1)
    expected = np.where(first, 4 * gbytes_per_s, gbytes_per_s)
    assert topology.bandwidth_gbytes_per_s == pytest.approx(expected)
    assert (topology.latency_ns == 150).all()


@readers
@pytest.mark.parametrize(
    ("unit", "ns"), [("ns", 7.0), ("us", 7e3), ("µs", 7e3), ("ms", 7e6), ("s", 7e9), ("ps", 7e-3)]
)
def test_a_key_says_which_attribute_is_the_latency_and_in_what_unit(read, unit, ns, tmp_path):
    topology = read(tmp_path, square(delay=7), latency_key=f"delay:{unit}")
    assert sorted(set(topology.latency_ns)) == pytest.approx([ns, 4 * ns])
    assert (topology.bandwidth_gbytes_per_s == 16).all()


@readers
def test_both_keys_may_be_given_and_one_quantity_leaves_the_other(read, tmp_path):
    graph = square(weight=3.0, delay=2.0)
    topology = read(tmp_path, graph, bandwidth_key="weight:GB/s", latency_key="delay:us")
    assert topology.bandwidth_gbytes_per_s.max() == 12 and topology.latency_ns.max() == 8000
    with pytest.raises(TopologyError, match="attribute 'delay' of links must be called latency_ns"):
        read(tmp_path, graph, bandwidth_key="weight:GB/s")


@readers
def test_beside_what_is_read_a_lookalike_is_reported(read, tmp_path):
    graph = square(bandwidth_gbytes_per_s=2.0, capacity=100)
    with pytest.warns(TopologyWarning, match="attributes of links that are not read: 'capacity'"):
        topology = read(tmp_path, graph)
    assert topology.bandwidth_gbytes_per_s.max() == 8
    for data in graph.edges.values():
        data["speed"] = data.pop("bandwidth_gbytes_per_s")
    with pytest.warns(TopologyWarning, match="not read: 'speed'"):
        assert read(tmp_path, graph, bandwidth_key="capacity:Gb/s").bandwidth_gbytes_per_s[0] == 50


@readers
def test_all_else_that_is_dropped_is_reported_by_name(read, tmp_path):
    graph = square(colour=1, lanes=4)
    graph.nodes["y"]["rack"] = 7
    graph.graph["site"] = "north"
    with pytest.warns(TopologyWarning) as caught:
        read(tmp_path, graph)
    reported = [str(each.message).split(": ", 1)[1] for each in caught]
    assert sorted(reported) == [
        "attributes of links that are not read: 'colour', 'lanes'",
        "attributes of nodes that are not read: 'rack'",
        "attributes of the graph that are not read: 'site'",
    ]


@readers
@over("torus:3x3 bigraph:2x4", Topology.from_networkx(square(), name="named"))
def test_nothing_is_reported_where_all_is_read(read, topology, tmp_path):
    for network in (topology, topology.without(links=[topology.num_links - 1])):
        names, plan = network.names, build(network, "multitree")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read(tmp_path, network.to_networkx()).names == names
            assert reloaded(network, tmp_path / "ours.graphml").names == names
            assert reloaded(plan, tmp_path / "plan.json").topology.names == names


@readers
@pytest.mark.parametrize(
    ("graph", "keys", "says"),
    [
        (square(capacity=1), {"bandwidth_key": "capacity"}, "must be NAME:UNIT, such as"),
        (square(capacity=1), {"bandwidth_key": ":Gb/s"}, "must be NAME:UNIT, such as"),
        (square(capacity=1), {"bandwidth_key": "capacity:ns"}, "have a unit of B/s, .*, not 'ns'"),
        (square(capacity=1), {"bandwidth_key": "capacity:gB/s"}, "not 'gB/s'"),
        (square(delay=1), {"latency_key": "delay:GB/s"}, "Latency key must have a unit of ps, ns"),
        (square(capacity=1), {"bandwidth_key": "cap:Gb/s"}, "cap must be there, as on all"),
        (square(capacity="a"), {"bandwidth_key": "capacity:Gb/s"}, "number, not 'aaaa'|'aaaa'"),
        (square(capacity=-1), {"bandwidth_key": "capacity:Gb/s"}, "positive"),
        (
            square(bandwidth_gbytes_per_s=1, capacity=1),
            {"bandwidth_key": "capacity:Gb/s"},
            "bandwidth_gbytes_per_s must not be there in addition to 'capacity'",
        ),
    ],
)
def test_keys_that_do_not_fit_are_refused_in_one_sentence(read, graph, keys, says, tmp_path):
    refuses(TopologyError, says, read, tmp_path, graph, **keys)


@readers
def test_a_key_that_some_links_have_not_is_refused(read, tmp_path):
    graph = square(capacity=1)
    del graph.edges["y", "z"]["capacity"]
    says = "capacity must be there, as on all .*, not missing"
    refuses(TopologyError, says, read, tmp_path, graph, bandwidth_key="capacity:Gb/s")


def hub(of_hub, of_others=None, *, name="kind"):
    """Three nodes around a fourth, whose kind is that, and theirs another or none."""
    graph = nx.star_graph(3)
    graph.nodes[0][name] = of_hub
    if of_others is not None:
        graph.add_nodes_from([1, 2, 3], **{name: of_others})
    return graph


@readers
@pytest.mark.parametrize("kind", ["Switch", "router", "SWITCH", 1, True, "", "host"])
def test_a_kind_that_is_neither_is_refused_by_its_node_and_is_no_rank(read, kind, tmp_path):
    said = re.escape(repr(kind if read is from_graph else str(kind)))
    node = 0 if read is from_graph else "'0'"
    says = f"kind of node {node} must be rank or switch, not {said}: hosts are ranks, what only f"
    refuses(TopologyError, says, read, tmp_path, hub(kind))
    # GraphML has no such value.
    refuses(TopologyError, "kind of node 0 must be .*, not None", from_graph, None, hub(None))


@readers
@pytest.mark.parametrize(
    ("name", "values"),
    [
        *(("type", "ab"), ("nodeType", "ab"), ("device role", "ab"), ("is_switch", [True, False])),
        *(("class", [1, 2]), ("what", ["Switch", "gpu"]), ("isGPU", [0, 1]), ("Kind", "ab")),
    ],
)
def test_a_kind_by_another_name_is_refused_until_a_key_says_what_it_is(
    read, name, values, tmp_path
):
    graph = hub(*values, name=name)
    says = f"attribute '{name}' of nodes must be called kind.*--kind-key {name}:VALUE.*passed over"
    refuses(TopologyError, says, read, tmp_path, graph)
    key = f"{name}:{values[0]}=switch,{values[1]}=rank"
    topology = read(tmp_path, graph, kind_key=key)
    assert (topology.num_ranks, topology.num_switches) == (3, 1)
    assert set(topology.links[topology.links != 3]) == {0, 1, 2}
    nx.set_node_attributes(graph, {0: "switch", **dict.fromkeys([1, 2, 3], "rank")}, "kind")
    refuses(TopologyError, f"kind must not .* '{name}'", read, tmp_path, graph, kind_key=key)
    with pytest.warns(TopologyWarning, match=f"attributes of nodes that are not read: '{name}'"):
        assert read(tmp_path, graph).num_switches == 1


@readers
def test_a_key_of_kinds_reads_every_node_or_refuses_one_by_name(read, tmp_path):
    graph = hub("switch", "rank", name="role")
    assert read(tmp_path, graph, kind_key="role").num_switches == 1
    key = "role:Switch=switch,gpu=rank"
    refuses(
        TopologyError, "role of node .* be switch or gpu, not", read, tmp_path, graph, kind_key=key
    )
    del graph.nodes[2]["role"]
    says = "role of node '?2'? must be there, or --kind-key have =KIND for those without"
    refuses(TopologyError, says, read, tmp_path, graph, kind_key="role")
    key = "role:switch=switch,rank=rank,=rank"
    assert read(tmp_path, graph, kind_key=key).num_switches == 1
    for wrong in ("role:a=rank,b=router", "role:a=rank,A=switch", "", ":a=rank", 7):
        refuses(TopologyError, "Kind key must be NAME, or", read, tmp_path, graph, kind_key=wrong)


def test_keys_come_with_graphs_of_topologies_only(tmp_path):
    ring = parse_topology("ring:4")
    for saved, says in ((ring, "not with JSON"), (build(ring, "ring"), "not of a schedule")):
        path = tmp_path / "ring.json"
        reloaded(saved, path)
        refuses(TopologyError, says, load_file, path, bandwidth_key="capacity:Gb/s")
    with pytest.raises(TopologyError, match="must come with a file, not with 'ring:4'"):
        parse_topology("ring:4", latency_key="delay:us")


@pytest.mark.parametrize("suffix", [".json", ".graphml"])
def test_names_are_kept_in_files_and_in_schedules_of_what_is_left(suffix, tmp_path):
    hub = nx.Graph([("hub", "a"), ("hub", "b"), ("hub", "c"), ("a", "b"), ("b", "c")])
    hub.nodes["hub"]["kind"] = "switch"
    topology = Topology.from_networkx(hub)
    assert topology.names == ("a", "b", "c", "hub")
    assert [topology.label(node) for node in (0, 3)] == ["0 (a)", "3 (hub)"]
    assert reloaded(topology, tmp_path / f"net{suffix}").names == topology.names
    plan = reloaded(build(topology, "multitree"), tmp_path / "plan.json")
    assert plan.topology.names == topology.names
    assert topology.without(ranks=[1]).names == ("a", "c", "hub")
    assert topology.without(switches=[3]).names == ("a", "b", "c")
    assert among(topology, [0, 2]).names == ("a", "c", "hub")
    assert among(topology, [0, 2], forwarding=True).names == ("a", "c", "b", "hub")
    assert topology.to_networkx().nodes[3]["name"] == "hub"


def test_names_change_no_schedule():
    named = Topology.from_networkx(square())
    numbered = Topology.from_networkx(nx.cycle_graph(4))
    assert numbered.names is None and numbered.label(2) == "2"
    assert build(named, "multitree").hash == build(numbered, "multitree").hash


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a"], "Names must be one per node, 2, not 1"),
        (["a", "a"], "Names must be different, not 'a' of nodes 0 and 1"),
        (["a", "b\x1b[2J"], r"Name of node 1 must be 1 to 200 printable .*, not 'b\\x1b\[2J'"),
        (["", "b"], "Name of node 0 must be"),
        (["a" * 201, "b"], "Name of node 0 must be"),
        ([1, "b"], "Name of node 0 must be .*, not 1"),
    ],
)
def test_names_that_do_not_fit_are_refused(names, says):
    refuses(TopologyError, says, Topology, "pair", 2, 0, [[0, 1], [1, 0]], 16.0, 150.0, names=names)


def test_a_node_that_cannot_be_reached_is_named():
    graph = nx.DiGraph([("in", "out"), ("out", "in"), ("out", "sink")])
    with pytest.raises(TopologyError, match=r"able to reach rank 0, not all but node 2 \(sink\)"):
        Topology.from_networkx(graph)
