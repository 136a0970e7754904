"""Tests of routers attached to ranks: the same transfers, and no rank forwards."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from multitree import LinkModel, Topology, TopologyError, build, parse_topology, verify
from multitree.nic.driver.table import compile_table
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.arrays import rows_of_entries
from multitree.topology.collectives import Op
from multitree.topology.lowering import lowered, through_switches, with_switches
from multitree.topology.networks.nodes import ports_in_use
from tests.topology.graphs import by_hand, one_way_ring, topologies


def forwarding(schedule):
    """Ranks that are neither the source nor the destination of what passes them."""
    offsets = schedule.route_offsets
    inner = np.ones(len(schedule.route_links), bool)
    inner[offsets[1:] - 1] = False
    ends = schedule.topology.links[schedule.route_links[inner], 1]
    return ends[ends < schedule.topology.num_ranks]


@given(topologies(both_directions=True, switches=None))
@settings(deadline=None, print_blob=True, max_examples=120)
def test_each_port_of_a_rank_leads_to_its_switch_and_on_by_the_link_it_had(topology):
    wired = with_switches(topology)
    for rank in range(topology.num_ranks):
        switch = topology.num_nodes + rank
        ports, wired_ports = topology.ports(rank), wired.ports(rank)
        assert (wired.links[wired_ports] == [rank, switch]).all()
        assert (wired.ports(switch)[: len(ports)] == ports).all()
        assert (wired.links[wired.reverse[wired_ports]] == [switch, rank]).all()
        assert len(wired_ports) == len(ports) == wired.degree[switch] - len(ports)
    was, now = topology.links, wired.links[: topology.num_links]
    is_rank = was < topology.num_ranks
    assert (now == was + topology.num_nodes * is_rank).all()
    assert (wired.reverse[: topology.num_links] == topology.reverse).all()


@pytest.mark.parametrize("algorithm", ["double_tree", "halving_doubling"])
@given(topologies(both_directions=True, switches=None))
@settings(deadline=None, print_blob=True, max_examples=80)
def test_what_is_carried_is_right_and_the_same_but_that_no_rank_passes_it_on(algorithm, topology):
    schedule = build(topology, algorithm)
    through = lowered(schedule)
    assert (through is schedule) == (forwarding(schedule).size == 0)
    assert forwarding(through).size == 0
    verify(through)
    for field in ("step", "op", "flow", "src", "dst", "order", "flow_offsets"):
        assert (getattr(through, field) == getattr(schedule, field)).all()
    of_network = through.route_links < topology.num_links
    assert (through.route_links[of_network] == schedule.route_links).all()
    assert (through.route_classes[of_network] == schedule.route_classes).all()
    rows = rows_of_entries(through.route_offsets)[of_network]
    assert (rows == rows_of_entries(schedule.route_offsets)).all()


def test_a_message_keeps_the_ports_and_classes_that_it_left_and_came_in_by():
    topology = parse_topology("torus:8x2")
    schedule = build(topology, "swing")
    through = through_switches(schedule)
    assert through_switches(schedule) is through
    first, last = schedule.route_offsets[:-1], schedule.route_offsets[1:] - 1
    begin, end = through.route_offsets[:-1], through.route_offsets[1:] - 1
    assert schedule.route_classes.any()
    assert (through.route_classes[begin] == schedule.route_classes[first]).all()
    assert (through.route_classes[end] == schedule.route_classes[last]).all()
    wired = through.topology
    for row in range(schedule.num_transfers):
        pairs = [
            (through.route_links[begin[row]], schedule.route_links[first[row]]),
            (
                wired.reverse[through.route_links[end[row]]],
                topology.reverse[schedule.route_links[last[row]]],
            ),
        ]
        for local, link in pairs:
            assert wired.port_of_link(int(local)) == topology.port_of_link(int(link))


def test_links_keep_their_figures_and_local_ones_are_as_fast_as_those_beside_them():
    links = [[0, 1], [1, 2], [1, 0], [2, 1]]
    line = Topology("line", 3, 0, links, [1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0])
    wired = with_switches(line)
    assert wired.bandwidth_gbytes_per_s.tolist() == [1, 2, 3, 4, 1, 2, 3, 4, 3, 4, 1, 2]
    assert wired.latency_ns.tolist() == [10, 20, 30, 40] + 8 * [0.1]


@pytest.mark.parametrize(("spec", "links"), [("torus:4x4", [20, 23]), ("mesh:3x3", [4, 13])])
@pytest.mark.parametrize("algorithm", ["double_tree", "multitree"])
def test_tables_of_what_is_left_are_those_of_the_whole_network_for_the_same_routes(
    spec, links, algorithm
):
    whole = parse_topology(spec)
    left = whole.without(links=links)
    gone = {*links, *whole.reverse[links].tolist()}
    # Some rank has lost the link at its last port.
    assert (ports_in_use(left.links, left.link_ports, left.num_nodes) < left.num_ports).any()
    kept = np.array([link for link in range(whole.num_links) if link not in gone])
    of_left = build(left, algorithm)
    of_whole = replace(of_left, topology=whole, route_links=kept[of_left.route_links])
    wired = through_switches(of_left), through_switches(of_whole)
    assert np.array_equal(*(each.topology.num_ports for each in wired))
    config = config_for(wired[1].topology, LinkModel(), **least_sizes(wired[1], 90))
    for rank in range(whole.num_ranks):
        one, other = (compile_table(each, rank, 90, config) for each in wired)
        for field in set(vars(one)) - {"schedule_hash"}:
            assert np.array_equal(getattr(one, field), getattr(other, field)), field


def test_a_rank_without_a_way_back_is_an_error_that_names_the_link():
    rows = [(op, op, 0, 2 * op, 2 - 2 * op) for op in (Op.REDUCE, Op.GATHER)]
    rows += [(2, Op.GATHER, 0, 0, 1), (0, Op.REDUCE, 0, 1, 2)]
    schedule = by_hand(one_way_ring(3), rows)
    with pytest.raises(TopologyError, match="one way: link 0 must have a reverse link, not none"):
        lowered(schedule)
