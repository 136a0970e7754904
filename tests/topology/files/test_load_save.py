"""A topology survives a file; a wrong file is refused with its name and place."""

import json
import os
import sys
import tracemalloc

import networkx as nx
import pytest
from hypothesis import example, given, settings

from multitree import Topology, bigraph, load_topology, parse_topology, save_topology, torus
from multitree.topology import file_io
from multitree.topology.errors import TopologyError, TopologyWarning
from multitree.topology.files import graphml as graphml_text
from multitree.topology.files import json_format as json_topology
from multitree.topology.networks.graphs import NO_KEYS
from tests.refusals import refuses
from tests.topology.graphs import over, topologies

COUNT = range(2000)
PAIR = [[0, 1, 16.0, 150.0], [1, 0, 16, 150]]
PORT_0 = [0, 1, 16, 150, 0]
GOOD = {"schema": "multitree.topology.v1", "num_ranks": 2, "num_switches": 0, "links": PAIR}
ODD = Topology("odd", 2, 1, [[0, 2], [2, 0], [1, 2], [2, 1]], [0.1, 1e-9, 1 / 3, 7e20], 0.3)


def equal(one, other):
    """Whether two topologies are the same to the last bit, names left out."""
    counts = [(each.num_ranks, each.num_switches) for each in (one, other)]
    fields = ("links", "bandwidth_gbytes_per_s", "latency_ns")
    return counts[0] == counts[1] and all(
        getattr(one, field).tobytes() == getattr(other, field).tobytes() for field in fields
    )


@pytest.mark.parametrize("suffix", [".json", ".graphml"])
@example(topology=ODD)
@given(topology=topologies(switches=True))
@settings(deadline=None, print_blob=True, max_examples=20)
def test_a_topology_is_the_same_after_it_was_saved_and_loaded(tmp_path_factory, topology, suffix):
    path = tmp_path_factory.mktemp("files") / f"graph{suffix}"
    save_topology(topology, path)
    for back in (load_topology(path), parse_topology(str(path))):
        assert equal(back, topology)
        assert back.name == path.name


def test_a_json_file_has_one_link_per_line(tmp_path):
    save_topology(ODD, tmp_path / "odd.json")
    text = (tmp_path / "odd.json").read_text()
    assert list(json.loads(text)) == ["schema", "num_ranks", "num_switches", "links"]
    assert json.loads(text)["links"][2] == [1, 2, 1 / 3, 0.3]
    assert "\n    [0, 2, 0.1, 0.3],\n" in text


@over(ODD, "torus:3x3 bigraph:2x4 dgx2")
def test_what_networkx_writes_is_read_and_what_we_write_networkx_reads(tmp_path, topology):
    nx.write_graphml(topology.to_networkx(), tmp_path / "theirs.graphml")
    assert equal(load_topology(tmp_path / "theirs.graphml"), topology)
    save_topology(topology, tmp_path / "ours.graphml")
    graph = nx.read_graphml(tmp_path / "ours.graphml", node_type=int)
    assert equal(Topology.from_networkx(graph), topology)


@pytest.mark.parametrize(
    "graph",
    [
        nx.petersen_graph(),
        nx.relabel_nodes(nx.cycle_graph(12), "n{}".format),
        nx.MultiGraph([("b", "a"), ("a", "c"), ("c", "b"), ("a", "b")]),
        nx.relabel_nodes(nx.cycle_graph(3), {0: "1", 1: "01", 2: "001"}),
        nx.relabel_nodes(nx.cycle_graph(3), {0: "3", 1: "\u00b2", 2: "\u0661"}),
        nx.MultiGraph(bigraph(2, 2).to_networkx()),
    ],
    ids=["numbers", "names", "parallel", "almost numbers", "other digits", "ids of one way"],
)
def test_a_graph_of_another_program_is_numbered_as_from_networkx_does(tmp_path, graph):
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    assert equal(load_topology(tmp_path / "graph.graphml"), Topology.from_networkx(graph))


def test_defaults_of_keys_and_of_a_topology_fill_in_what_edges_do_not_say(tmp_path):
    path = tmp_path / "net.graphml"
    keys = '<key id="l" for="edge" attr.name="latency_ns"><desc>of all</desc><default>7</default>'
    edges = '<edge source="0" target="1"/><edge source="1" target="0"><data key="l">\n 8 </data>'
    path.write_text(graphml(f"{keys}</key>", NODES + edges + "</edge>"))
    loaded = load_topology(path)
    assert loaded.latency_ns.tolist() == [7, 8]
    assert loaded.bandwidth_gbytes_per_s.tolist() == [16, 16]


def test_the_namespace_of_graphml_may_be_left_out(tmp_path):
    path = tmp_path / "net.graphml"
    path.write_text(f'<graphml><graph edgedefault="directed">{NODES}{EDGES}</graph></graphml>')
    assert load_topology(path).links.tolist() == [[0, 1], [1, 0]]


def test_what_editors_add_for_drawing_is_passed_over(tmp_path):
    path = tmp_path / "net.graphml"
    keys = '<key id="y" for="node" yfiles.type="nodegraphics"/><key id="x" attr.name="x"/>'
    node = '<node id="n0"><desc>a <b/> c</desc><data key="y"><y:Shape xmlns:y="z"><a/>b</y:Shape>'
    rest = '</data><data key="x">12</data></node><node id="n1"/><edge source="n0" target="n1"/>'
    path.write_text(graphml(keys, node + rest, kind="undirected").replace("<graph ", DATA))
    assert load_topology(path).links.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "v0"}, "schema must be multitree.topology.v1, not 'v0'"),
        ({"num_ranks": "2"}, "num_ranks must be an integer within 2..65536, not '2'"),
        ({"num_ranks": "x" * 99}, f"not '{'x' * 27}...{'x' * 28}'$"),
        ({"num_ranks": True}, "num_ranks must be an integer within 2..65536, not True"),
        ({"num_ranks": 10**9}, "num_ranks must be an integer within 2..65536, not 1000000000"),
        ({"num_ranks": 3}, "Every node .* not all but node 2"),
        ({"num_switches": -1}, "num_switches must be an integer within 0..65536, not -1"),
        ({"links": 3}, "links must be a list, not 3"),
        ({"links": []}, "not all but node 1"),
        ({"links": [*PAIR, [0, 1]]}, r"links\[2\] must be \[src, dst, .*\], not \[0, 1\]"),
        ({"links": [*PAIR, {}]}, r"links\[2\] must be \[src, dst, .*\], not \{...\}"),
        ({"links": [*PAIR, 3]}, r"links\[2\] must be \[src, dst, .*\], not 3"),
        ({"links": [*PAIR, [0, 1.0, 1, 1]]}, r"links\[2\]\[1\] must be an integer .*, not 1.0"),
        ({"links": [*PAIR, [False, 1, 1, 1]]}, r"links\[2\]\[0\] must be an integer .*, not False"),
        ({"links": [*PAIR, [0, 2**70, 1, 1]]}, r"links\[2\]\[1\] must be an integer within 0..1, "),
        ({"links": [*PAIR, [-1, 1, 1, 1]]}, r"links\[2\]\[0\] must be an integer .*, not -1"),
        ({"links": [*PAIR, [0, 1, "1", 1]]}, r"links\[2\]\[2\] must be a positive, .*, not '1'"),
        ({"links": [*PAIR, [0, 1, 0, 1]]}, r"links\[2\]\[2\] must be a positive, .*, not 0"),
        ({"links": [*PAIR, [0, 1, 1, float("nan")]]}, r"links\[2\]\[3\] must be .*, not nan"),
        ({"links": [*PAIR, [0, 1, 1, 10**400]]}, r"links\[2\]\[3\] must be .*, not 1000"),
        ({"links": [*PAIR, [0, 1, 1, True]]}, r"links\[2\]\[3\] must be .*, not True"),
        ({"links": [*PAIR, [1, 1, 1, 1]]}, r"Link 2 must join two different nodes, not \[1, 1\]"),
        ({"links": [PORT_0, [1, 0, 16, 150, 0.5]]}, r"links\[1\]\[4\] must be an integer"),
        ({"links": [PORT_0, [1, 0, 16, 150, 65536]]}, r"links\[1\]\[4\] must .* within 0..65535"),
        ({"links": [PORT_0, PAIR[1]]}, r"links\[1\] must be \[.*, port\], as links\[0\]"),
        ({"num_ports": [2]}, r"num_ports must be a list of 2, not \[2\]"),
        ({"num_ports": 2}, "num_ports must be a list of 2, not 2"),
        ({"num_ports": None}, "num_ports must be a list of 2, not None"),
        ({"num_ports": [2, True]}, r"num_ports\[1\] must be an integer within 0..65536, not True"),
        ({"num_ports": [0, 2]}, "Ports of node 0 must be within 1..65536, not 0"),
        ({"colour": 1}, "keys of content must be schema, .*, links, not 'colour'"),
    ],
)
def test_a_wrong_entry_is_refused_with_file_and_place(tmp_path, change, message):
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(GOOD | change))
    refuses(TopologyError, f"wrong.json: .*{message}", load_topology, path)


SCHEMA = b'{"schema": "multitree.topology.v1"'
INFINITE = json.dumps(GOOD).replace("16.0", "1e999", 1)  # too large for a float


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"schema": 1,\n  x}', "line 2, column 3 must be JSON, not: Expecting property name"),
        (b"", "line 1, column 1 must be JSON"),
        (INFINITE.encode(), r"links\[0\]\[2\] must be a positive, .*, not inf"),
        (b"[1, 2]", r"content must be an object, not \[1, 2\]"),
        (b"[" * 100_000, "line 1, column 17 must be at most 16 levels deep, not deeper"),
        (b'["]]]",\n' + b'{"a":' * 16, "line 2, column 76 must be at most 16 levels deep"),
        (b"[" + b"[], " * 99 + b"1]", r"content must be an object, not \[\[\], .*\.\.\.\]"),
        (b'{"num_ranks":\n' + b"9" * 10**6, "line 2, column 1 must be a number of at most 500"),
        (b'["\\"", 0.' + b"1" * 501 + b"]", "line 1, column 10 must be a number of at most 500"),
        (b'{"num_ranks": 2}', "schema must be multitree.topology.v1, not None"),
        (b"\xef\xbb\xbf[1]", r"content must be an object, not \[1\]"),
        (b'[1,\n "\xc3\xa4\xff\xfe"]', "line 2, column 4: text must be UTF-8, not byte 0xff"),
        ("[1]".encode("utf-16"), "line 1, column 1: text must be UTF-8, not byte 0xff"),
        (SCHEMA + b"}", "key num_ranks of content must be there, not missing"),
        (SCHEMA + b', "links": 1, "links": 2}', "key links of content must be there once"),
        (SCHEMA + b', "\\ud800\\u001b": 1}', r"keys of content .*, not '\\ud800\\x1b'"),
    ],
)
def test_what_is_no_such_json_is_refused_with_file_and_place(tmp_path, content, message):
    path = tmp_path / "wrong.json"
    path.write_bytes(content)
    refuses(TopologyError, f"wrong.json: {message}", load_topology, path)


NODES = '<node id="0"/><node id="1"/>'
EDGES = '<edge source="0" target="1"/><edge source="1" target="0"/>'
DATA = '<key id="d" for="graph" attr.name="a"/><data key="d"/><graph '


def key(name, domain="edge", default=None):
    """A key whose id is the first letter of its name."""
    value = "" if default is None else f"<default>{default}</default>"
    return f'<key id="{name[0]}" for="{domain}" attr.name="{name}">{value}</key>'


LINK, LINK_1, LINK_2 = key("link"), key("link", default=1), key("link", default=2)
HUB = key("kind", "node", "hub")
V0 = '<data key="s">v0</data>'
FAST = key("bandwidth_gbytes_per_s", "all")


def graphml(keys="", parts=NODES + EDGES, *, kind="directed", start=""):
    space = "http://graphml.graphdrawing.org/xmlns"
    graph = f'<graph edgedefault="{kind}">\n{parts}</graph>'
    return f'{start}<graphml xmlns="{space}">\n{keys}{graph}</graphml>'


def edge(data, ends='source="1" target="0"'):
    return f'{NODES}<edge source="0" target="1"/>\n<edge {ends}>{data}</edge>'


LAUGHS = '<!DOCTYPE graphml [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n'
EXTERNAL = '<!DOCTYPE graphml [<!ENTITY a SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1, column 1 must be XML, not: no element found"),
        ("<graph>\n<a></b>", "line 1, column 1: content must hold graphml, not 'graph'"),
        (graphml().replace("</graph>", "</a>"), r"line 3, column \d+ must be XML, not: mismatched"),
        (graphml(start=LAUGHS), "line 1, column .*: content must be without a document type"),
        (graphml(start=EXTERNAL), "line 1, column .*: content must be without a document type"),
        (graphml(parts="&a;"), r"line 3, column 1 must be XML, not: undefined entity"),
        (graphml(start='<?xml version="1.0" encoding="latin-1"?>'), "must be UTF-8, not 'latin-1'"),
        (graphml(parts="<node>" * 2), "line 3, column 1: id of node must be there, not missing"),
        (graphml(parts=NODES[:14] * 2), "column 15: id of node must be there once, not again '0'"),
        (graphml(parts=NODES + "x"), "graph must hold elements, not text 'x'"),
        (graphml(parts="<port/>"), "graph must hold desc, node, edge, data, not 'port'"),
        (graphml(parts="<desc>" + "<a>" * 17), "elements must be at most 16 levels deep"),
        (graphml(kind="both"), "edgedefault must be directed or undirected, not 'both'"),
        (graphml().replace("</graphml>", "<graph/></graphml>"), "graph must be there once"),
        ('<graphml xmlns="http://graphml.graphdrawing.org/xmlns"/>', "content must have a graph"),
        (graphml(parts=EDGES), "ends of edge must be nodes declared above, not '0'"),
        (graphml(parts=edge("", 'source="1"')), "line 4, column 1: target of edge must be there"),
        (graphml(parts=edge("", 'source="1" target="1"')), "line 4, .* must join two different"),
        (graphml(parts=edge("", 'source="1" target="0" directed="false"')), "directed of edge"),
        (graphml(parts=edge('<data key="b">1</data>')), "key of data must be declared above, n"),
        (graphml(FAST * 2), "line 2, .*: id of key must be there once, not again 'b'"),
        (graphml(LINK, '<node id="0"><data key="l">'), "key of data must be for node, not 'l' for"),
        (graphml(FAST, edge('<data key="b">1</data>' * 2)), "data 'bandwidth_.*' must be there on"),
        (graphml(FAST, edge('<data key="b"><a/></data>')), "data must hold text, not 'a'"),
        (graphml(FAST, edge('<data key="b">-1</data>')), "line 4, column 1: bandwidth_gb.*not -1"),
        (graphml(FAST, edge('<data key="b">1e999</data>')), "a positive, finite number, not inf"),
        (graphml(FAST, edge('<data key="b">NaN</data>')), "positive, finite number, not 'NaN'"),
        (graphml(FAST, edge('<data key="b">1_0</data>')), "positive, finite number, not '1_0'"),
        (graphml(FAST, edge(f'<data key="b">{"9" * 501}</data>')), "finite number, not '9999"),
        (graphml(LINK, edge('<data key="l">0</data>')), "line 3, .*: data link of edge must be th"),
        (graphml(LINK_1), "line 3, column 58: link must be there once, not again 1"),
        (graphml(LINK_2), "line 3, column 29: link must be an integer within 0..1, not 2"),
        (graphml(HUB), "line 3, column 1: kind of node '0' must be rank or switch, not 'hub'"),
        (graphml(key("schema", "graph"), V0), "schema must be multitree.topology.v1, not 'v0'"),
        (graphml(parts=""), "Number of ranks must be within 2..65536, not 0"),
        (graphml(parts=NODES), "Every node of 'wrong.graphml' must be reachable"),
    ],
)  # fmt: skip
def test_what_is_no_such_graphml_is_refused_with_file_and_place(tmp_path, content, message):
    path = tmp_path / "wrong.graphml"
    path.write_text(content)
    refuses(TopologyError, f"wrong.graphml: .*{message}", load_topology, path)


def test_defaults_of_many_keys_do_not_cost_memory_for_each_edge():
    keys = (f'<key id="{n}" for="edge" attr.name="a{n}"><default>1</default></key>' for n in COUNT)
    text = graphml("".join(keys), NODES + EDGES * len(COUNT))
    tracemalloc.start()
    with pytest.warns(TopologyWarning, match=r"not read: 'a0', 'a1', .* and 1992 more"):
        read = graphml_text.topology_of_graphml(text, "net", NO_KEYS)
    assert read.num_links == 2 * len(COUNT)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_a_file_that_cannot_be_read_or_written_or_is_too_large_is_refused(tmp_path, monkeypatch):
    with pytest.raises(TopologyError, match=r"none\.json: file must be readable, not: No such f"):
        load_topology(tmp_path / "none.json")
    refuses(TopologyError, "file must be a plain file, not a folder", load_topology, tmp_path)
    says = "path must be without null characters and half pairs"
    refuses(TopologyError, says, parse_topology, "\0.json")
    refuses(TopologyError, says, save_topology, torus(2, 2), "\ud800.json")
    nowhere, path = tmp_path / "none" / "x.json", tmp_path / "x.json"
    says = "file must be writable, not: No such file"
    refuses(TopologyError, says, save_topology, torus(2, 2), nowhere)
    save_topology(torus(4, 4), path)
    monkeypatch.setattr(file_io, "MAX_FILE_BYTES", 100)
    says = r"x\.json: file must be at most 100 bytes, not \d+"
    refuses(TopologyError, says, load_topology, path)
    refuses(TopologyError, says, save_topology, torus(4, 4), path)


def test_more_links_or_nodes_than_a_topology_can_have_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_topology, "MAX_LINKS", 63)
    monkeypatch.setattr(graphml_text, "MAX_NODES", 15)
    save_topology(torus(4, 4), tmp_path / "x.json")
    refuses(TopologyError, "links must be at most 63, not 64", load_topology, tmp_path / "x.json")
    save_topology(torus(4, 4), tmp_path / "x.graphml")
    with pytest.raises(TopologyError, match="nodes must be at most 15, not more"):
        load_topology(tmp_path / "x.graphml")


def test_more_edges_than_a_topology_can_have_links_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.graphml"
    for kind, fewest in (("directed", 2), ("undirected", 4)):
        path.write_text(graphml(kind=kind))
        monkeypatch.setattr(graphml_text, "MAX_LINKS", fewest)
        assert load_topology(path).num_links == fewest
        monkeypatch.setattr(graphml_text, "MAX_LINKS", fewest - 1)
        with pytest.raises(TopologyError, match=r"line 3, .*: edges must be at most 1, not more"):
            load_topology(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name on this system")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    refuses(TopologyError, "not a folder, pipe or device", load_topology, tmp_path / "pipe.json")


def test_limits_hold_whatever_the_interpreter_allows(tmp_path):
    before = sys.get_int_max_str_digits()
    (tmp_path / "x.json").write_text(json.dumps(GOOD | {"num_ranks": 10**499}))
    try:
        sys.set_int_max_str_digits(640)
        refuses(TopologyError, "num_ranks must be an integer", load_topology, tmp_path / "x.json")
    finally:
        sys.set_int_max_str_digits(before)
