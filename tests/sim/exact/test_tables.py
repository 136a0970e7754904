"""Tables of all ranks are those of `compile_table`; C++ has the structs of Python."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest

import multitree.sim.exact.structs as structs
from multitree import LinkModel, build, parse_topology
from multitree.hw.codes import Kind
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.driver.table import compile_table
from multitree.sim.exact.structs import NONE
from multitree.sim.exact.tables import tables_of
from multitree.sim.timing.sizing import config_for, least_sizes
from multitree.topology.collectives import Op
from multitree.topology.lowering import as_sent

NETWORKS = [
    ("mesh:3x3", "multitree", "all_reduce", None),
    ("torus:4x4", "bidirectional_ring_2d", "all_reduce", None),
    ("mesh:3x3", "forest", "all_reduce", None),
    ("mesh:2x3", "multitree", "broadcast", 4),
    ("fat_tree:2x2", "multitree", "reduce", 1),
    ("bigraph:2x4", "double_tree", "all_reduce", None),
    ("torus:3x3", "double_tree", "all_reduce", None),
]
NUM_FLITS = 900


@functools.cache
def both(spec, algorithm, collective, root, lockstep):
    """The tables of all ranks together, and each by the compiler."""
    schedule = build(parse_topology(spec), algorithm, collective, root=root)
    sent = as_sent(schedule)
    sizes = least_sizes(schedule, NUM_FLITS, lockstep=lockstep)
    config = config_for(sent.topology, LinkModel(), **sizes)
    ranks = range(sent.topology.num_ranks)
    compiled = [compile_table(sent, r, NUM_FLITS, config, lockstep=lockstep) for r in ranks]
    return sent, tables_of(sent, NUM_FLITS, lockstep=lockstep), compiled


# Waves are never in lockstep.
CASES = [
    pytest.param(*network, lockstep, id=f"{network[0]} {network[1]} {lockstep}")
    for network in NETWORKS
    for lockstep in (False, True)
    if network[1] != "forest" or not lockstep
]


@pytest.mark.every_set
@pytest.mark.parametrize(("spec", "algorithm", "collective", "root", "lockstep"), CASES)
def test_every_rank_has_the_rows_of_its_table(spec, algorithm, collective, root, lockstep):
    sent, tables, compiled = both(spec, algorithm, collective, root, lockstep)
    for rank, table in enumerate(compiled):
        rows = tables.rows[tables.row_offsets[rank] : tables.row_offsets[rank + 1]]
        nops = rows["transfer"] == NONE
        assert np.array_equal(nops, table.op == Op.NOP)
        for name in ("step", "stage"):
            assert np.array_equal(rows[name], getattr(table, name))
        assert np.array_equal(rows["port"][~nops], table.port[~nops])
        transfer = rows["transfer"][~nops]
        assert np.array_equal(sent.op[transfer], table.op[~nops])
        assert np.array_equal(sent.flow[transfer], table.flow[~nops])
        assert (sent.src[transfer] == rank).all()
        assert tables.expected[rank] == table.num_arrivals


@pytest.mark.every_set
@pytest.mark.parametrize(("spec", "algorithm", "collective", "root", "lockstep"), CASES)
def test_transfers_wait_for_what_the_flow_memory_says(spec, algorithm, collective, root, lockstep):
    sent, tables, compiled = both(spec, algorithm, collective, root, lockstep)
    shared = sent.topology.num_switches > 0
    for k, transfer in enumerate(tables.transfers):
        flow, src, dst = sent.flow[k], compiled[sent.src[k]], compiled[sent.dst[k]]
        children = [int(port) for port in dst.children[flow] if port != NO_PORT]
        came = src.parent[flow] != NO_PORT if sent.op[k] == Op.GATHER else False
        last = [int(port) for port in src.children[flow] if port != NO_PORT][-1:]
        need = transfer["need"]
        if came or last:
            assert sent.dst[need] == sent.src[k] and sent.flow[need] == flow
            assert sent.op[need] == (Op.GATHER if came else Op.REDUCE)
            awaited = src.parent[flow] if came else last[0]
            assert tables.transfers["dst_port"][need] == awaited
        else:
            assert need == NONE
        if sent.op[k] == Op.REDUCE:
            place = transfer["order"]
            assert children[place] == transfer["dst_port"]
            assert (transfer["before"] == NONE) == (place == 0)
            assert tables.transfers["order"][transfer["last"]] == len(children) - 1
        assert transfer["size"] == dst.size[flow]
        if shared:
            entries = range(sent.route_offsets[k] + 1, sent.route_offsets[k + 1])
            hops = tables.hops[transfer["hops"] : transfer["hops"] + len(entries)]
            links = sent.route_links[list(entries)]
            assert hops["port"].tolist() == sent.topology.link_ports[links].tolist()
            assert hops["vc_class"].tolist() == sent.route_classes[list(entries)].tolist()


FOLDER = Path(structs.__file__).parent
HEADER = structs.header()


def test_the_header_has_every_constant_and_code():
    found = dict(re.findall(r"constexpr u?int32_t (\w+) = (-?\d+);", HEADER))
    assert {name: int(value) for name, value in found.items()} == structs.CONSTANTS
    for kind in (Kind.HEAD, Kind.BODY, Kind.TAIL, Kind.SINGLE):
        assert f"{kind.name} = {kind.value}" in HEADER


@pytest.mark.parametrize(
    ("struct", "dtype"),
    [
        ("Parameters", structs.PARAMETERS),
        ("Row", structs.ROW),
        ("Transfer", structs.TRANSFER),
        ("Hop", structs.HOP),
        ("LinkOf", structs.LINK),
    ],
)
@pytest.mark.every_set
def test_structs_are_the_arrays_byte_for_byte(struct, dtype):
    bits, fields = re.search(rf"struct {struct} {{ int(\d+)_t ([\w, ]+); }};", HEADER).groups()
    assert tuple(fields.split(", ")) == dtype.names
    assert dtype.itemsize == len(dtype.names) * int(bits) // 8


def test_no_source_has_a_constant_of_its_own_for_one_of_the_header():
    sources = [path for path in FOLDER.iterdir() if path.suffix in (".h", ".cpp")]
    text = "\n".join(path.read_text() for path in sources)
    defined = set(re.findall(r"\b(\w+) = -?\d+[,;]", text))
    assert not defined & set(structs.CONSTANTS)
