"""Ports: by default in order of ids, and where links were lost those of before."""

import re
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from multitree import Topology, TopologyError, build, parse_topology, torus
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import compile_table
from multitree.topology.files.load_save import load_topology, save_topology
from tests.refusals import refuses
from tests.topology.graphs import both_ways, reloaded


def test_links_that_are_left_stay_where_they_were():
    whole = torus(4, 4)
    once = whole.without(links=[21], ranks=[3])
    twice = once.without(ranks=[0])
    for left, old in ((once, [0, 1, 2, *range(4, 16)]), (twice, [1, 2, *range(4, 16)])):
        plugged = zip(whole.links.tolist(), whole.link_ports, strict=True)
        names = {tuple(ends): port for ends, port in plugged}
        for ends, port in zip(np.array(old)[left.links].tolist(), left.link_ports, strict=True):
            assert port == names[tuple(ends)]
    src, dst = np.array([0, 1, 2, *range(4, 16)]).searchsorted(whole.links[21])
    assert once.link_at(int(src), int(whole.link_ports[21])) is None
    assert once.num_ports.max() == 4 > once.degree[src]
    assert not (once.links == [src, dst]).all(axis=1).any()


@pytest.mark.parametrize(
    ("lost", "old", "bare"),
    [({"links": [11]}, range(6), [(4, 2), (5, 1)]), ({"ranks": [4]}, [0, 1, 2, 3, 5], [(4, 1)])],
)
def test_who_loses_the_link_at_its_last_port_still_has_that_port(lost, old, bare):
    whole = parse_topology("mesh:2x3")
    left = whole.without(**lost)
    assert left.num_ports.tolist() == whole.num_ports[list(old)].tolist()
    again = left.without(ranks=[3])
    assert again.num_ports.tolist() == np.delete(left.num_ports, 3).tolist()
    for node, port in bare:
        assert left.num_ports[node] == port + 1
        assert left.link_at(node, port) is None


def test_a_table_names_the_ports_of_the_hardware():
    whole = torus(4, 4)
    left = whole.without(links=[20])  # port 0 of rank 5
    schedule, config = build(left, "multitree"), Config(num_ports=4)
    table = compile_table(schedule, 5, 64, config)
    sent = schedule.route_links[schedule.route_offsets[:-1]][schedule.src == 5]
    assert table.port.tolist() == left.link_ports[sent].tolist()
    assert set(table.port.tolist()) <= {1, 2, 3}
    back = left.reverse[left.ports(5)]
    assert set(table.parent.tolist()) - {15} <= set(left.link_ports[left.reverse[back]].tolist())


HIGHER = "Port of link 2 must be higher than those of .* leave node 1, not "


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("source_ports", [0, 1], "Link ports must be one per link, 4, not"),
        ("source_ports", [0, 0, 65536, 0], "Port of link 2 must be within 0..65535, not 65536"),
        ("source_ports", [0, -1, 1, 0], "Port of link 1 must be within 0..65535, not -1"),
        ("source_ports", [0, 3, 3, 0], HIGHER + "3"),
        ("source_ports", [0, 3, 2, 0], HIGHER + "2"),
        ("port_counts", [1, 2], "Numbers of ports must be one per node, 3, not"),
        ("port_counts", [1, 3, 65537], "Ports of node 2 must be within 1..65536, not 65537"),
        ("port_counts", [1, 1, 1], "Ports of node 1 must be within 2..65536, not 1"),
    ],
)
def test_ports_that_cannot_be_are_refused(field, value, says):
    line = both_ways("line", 3, 0, [(0, 1), (1, 2)])
    refuses(TopologyError, says, replace, line, **{field: value})


def through_networkx(topology, path):
    return Topology.from_networkx(topology.to_networkx(), name=path.name)


def through_networkx_file(topology, path):
    nx.write_graphml(topology.to_networkx(), path)
    return load_topology(path)


def through_schedule(topology, path):
    return reloaded(build(topology, "multitree"), path).topology


@pytest.mark.parametrize(
    ("through", "suffix"),
    [
        (through_networkx, "graphml"),
        (through_networkx_file, "graphml"),
        (reloaded, "json"),
        (reloaded, "graphml"),
        (through_schedule, "json"),
    ],
)
@pytest.mark.parametrize(
    ("topology", "reported"),
    [
        (torus(4, 4).without(links=[20], ranks=[3]), (True, True)),
        (torus(4, 4).without(links=[23]), (True, True)),
        (parse_topology("mesh:3").without(ranks=[0]), (True, False)),
        (parse_topology("mesh:3").without(ranks=[2]), (False, True)),
        (torus(4, 4), (False, False)),
    ],
    ids=lambda each: getattr(each, "name", None),
)
def test_files_and_graphs_keep_ports_and_tell_them_only_where_they_have_to(
    tmp_path, through, suffix, topology, reported
):
    read = through(topology, tmp_path / f"net.{suffix}")
    assert (read.links == topology.links).all()
    assert (read.link_ports == topology.link_ports).all()
    assert (read.num_ports == topology.num_ports).all()
    assert (read.source_ports is not None, read.port_counts is not None) == reported


def test_ports_of_a_graph_that_is_of_another_kind_or_has_no_ids_do_not_count():
    left = torus(4, 4).without(links=[23])
    graph = left.to_networkx()
    graph.graph["schema"] = "of others"
    read = Topology.from_networkx(graph)
    assert read.source_ports is read.port_counts is None
    graph = left.to_networkx()
    del graph.edges[0, 1, 3]["link"]
    read = Topology.from_networkx(graph)
    assert read.source_ports is read.port_counts is None
    graph = left.to_networkx()
    del graph.edges[0, 1, 3]["port"]
    refuses(TypeError, "Link ports must be integers, not object", Topology.from_networkx, graph)


def test_a_graph_in_any_order_has_its_ports_by_id(tmp_path):
    left = torus(4, 4).without(links=[20])
    save_topology(left, tmp_path / "net.graphml")
    head, *edges = (tmp_path / "net.graphml").read_text().split("<edge")
    last, end = edges[-1].split("</edge>")
    edges = [*edges[:-1], f"{last}</edge>\n    "][::-1]
    (tmp_path / "net.graphml").write_text("<edge".join([head, *edges]) + end)
    assert (load_topology(tmp_path / "net.graphml").link_ports == left.link_ports).all()


def test_a_port_of_other_programs_or_without_ids_does_not_count(tmp_path):
    left = torus(4, 4).without(links=[23])
    path = tmp_path / "net.graphml"
    save_topology(left, path)
    text = path.read_text()
    path.write_text(re.sub(r"<data key=\"\w+\">multitree.topology.v1</data>", "", text))
    assert load_topology(path).source_ports is load_topology(path).port_counts is None
    path.write_text(re.sub(r"<data key=\"edge_link\">\d+</data>", "", text))
    assert load_topology(path).source_ports is load_topology(path).port_counts is None
    port = re.search(r"key id=\"(\w+)\" for=\"edge\" attr.name=\"port\"", text)[1]
    path.write_text(re.sub(rf"<data key=\"{port}\">0</data>", "", text, count=1))
    refuses(TopologyError, "port of edge must be there, not missing", load_topology, path)
