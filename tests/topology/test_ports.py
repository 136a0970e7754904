"""Ports: by default in order of ids, and where links were lost those of before."""

import numpy as np
import pytest

from multitree.nic.config import Config
from multitree.nic.table import compile_table
from multitree.topology.builders import build
from multitree.topology.errors import TopologyError
from multitree.topology.families import parse_topology, torus
from multitree.topology.files import load_topology, save_topology
from multitree.topology.topology import Topology


@pytest.mark.parametrize("spec", ["torus:4x4", "mesh:2x3", "fat_tree:2x2", "ring:2"])
def test_by_default_port_p_is_the_pth_link(spec):
    topology = parse_topology(spec)
    for node in range(topology.num_nodes):
        links = topology.ports(node).tolist()
        assert topology.link_ports[links].tolist() == list(range(len(links)))
        assert [topology.link_at(node, port) for port in range(len(links) + 1)] == [*links, None]
        assert topology.num_ports[node] == topology.degree[node] == len(links)


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


@pytest.mark.parametrize(
    ("plugs", "says"),
    [
        ([0, 1], "Link ports must be one per link, 4, not"),
        ([0, 0, 65536, 0], "Port of link 2 must be within 0..65535, not 65536"),
        ([0, -1, 1, 0], "Port of link 1 must be within 0..65535, not -1"),
        ([0, 3, 3, 0], "Port of link 2 must be higher than those of .* leave node 1, not 3"),
        ([0, 3, 2, 0], "Port of link 2 must be higher than those of .* leave node 1, not 2"),
    ],
)
def test_ports_that_cannot_be_are_refused(plugs, says):
    with pytest.raises(TopologyError, match=says):
        Topology("line", 3, 0, [[0, 1], [1, 0], [1, 2], [2, 1]], 16.0, 150.0, plugs=plugs)


def test_files_do_not_lose_ports_without_a_word(tmp_path):
    left = torus(4, 4).without(links=[20])
    for name in ("left.json", "left.graphml"):
        with pytest.raises(TopologyError, match=f"{name}: links must leave by the ports"):
            save_topology(left, tmp_path / name)
        assert not (tmp_path / name).exists()
    last = parse_topology("full:3").without(ranks=[2])  # behind the last ports of the others
    save_topology(last, tmp_path / "last.json")
    assert (load_topology(tmp_path / "last.json").link_ports == last.link_ports).all()
