"""A topology survives a file; a wrong file is refused with its name and place."""

import json

import pytest
from hypothesis import given, settings

from multitree.topology import files
from multitree.topology.errors import TopologyError
from multitree.topology.families import parse_topology, torus
from multitree.topology.files import load_topology, save_topology
from multitree.topology.topology import Topology
from tests.topology.graphs import topologies

PAIR = [[0, 1, 16.0, 150.0], [1, 0, 16, 150]]
GOOD = {"schema": "multitree.topology.v1", "num_ranks": 2, "num_switches": 0, "links": PAIR}


@given(topologies())
@settings(deadline=None, print_blob=True, max_examples=20)
def test_a_topology_is_the_same_after_it_was_saved_and_loaded(tmp_path_factory, topology):
    path = tmp_path_factory.mktemp("files") / "graph.json"
    save_topology(topology, path)
    back = load_topology(path)
    assert (back.links == topology.links).all()
    assert (back.num_ranks, back.num_switches) == (topology.num_ranks, 0)
    assert back.name == "graph.json"


def test_speeds_and_switches_are_kept_to_the_last_bit(tmp_path):
    odd = Topology("odd", 2, 1, [[0, 2], [2, 0], [1, 2], [2, 1]], [0.1, 1e-9, 1 / 3, 7e20], 0.3)
    save_topology(odd, tmp_path / "odd.json")
    back = parse_topology(str(tmp_path / "odd.json"))
    assert back.bandwidth_gbytes_per_s.tolist() == [0.1, 1e-9, 1 / 3, 7e20]
    assert back.num_switches == 1
    content = json.loads((tmp_path / "odd.json").read_text())
    assert list(content) == ["schema", "num_ranks", "num_switches", "links"]
    assert content["links"][2] == [1, 2, 1 / 3, 0.3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "v0"}, "schema must be 'multitree.topology.v1', not 'v0'"),
        ({"num_ranks": "2"}, "num_ranks must be an integer, not '2'"),
        ({"num_ranks": "x" * 99}, f"num_ranks must be an integer, not '{'x' * 56}...$"),
        ({"num_ranks": True}, "num_ranks must be an integer, not True"),
        ({"num_ranks": 3}, "Every node .* not all but node 2"),
        ({"num_switches": -1}, "Number of switches must be within 0..65536, not -1"),
        ({"links": 3}, "links must be a list, not 3"),
        ({"links": []}, "not all but node 1"),
        ({"links": [*PAIR, [0, 1]]}, r"links\[2\] must be \[src, dst, .*\], not \[0, 1\]"),
        ({"links": [*PAIR, [0, 1.0, 1, 1]]}, r"links\[2\] must be \[src, dst"),
        ({"links": [*PAIR, [0, 1, "1", 1]]}, r"links\[2\] must be \[src, dst"),
        ({"links": [*PAIR, [0, 2**40, 1, 1]]}, r"links\[2\] must be in range"),
        ({"links": [*PAIR, [-1, 1, 1, 1]]}, r"links\[2\] must be in range"),
        ({"links": [*PAIR, [0, 1, float("nan"), 1]]}, r"links\[2\] must be in range"),
        ({"links": [*PAIR, [0, 5, 1, 1]]}, r"Link 2 must join nodes 0..1, not \[0, 5\]"),
        ({"links": [*PAIR, [0, 1, 0, 1]]}, "bandwidth_gbytes_per_s of link 2 must be positive"),
        ({"colour": 1}, "keys must be schema, num_ranks, num_switches, links, not 'colour'"),
    ],
)
def test_a_wrong_entry_is_refused_with_file_and_place(tmp_path, change, message):
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(GOOD | change))
    with pytest.raises(TopologyError, match=f"wrong.json: .*{message}"):
        load_topology(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"schema": 1,\n  x}', "line 2, column 3 must be JSON, not: Expecting property name"),
        (b"", "line 1, column 1 must be JSON"),
        (b"[1, 2]", r"content must be an object, not \[1, 2\]"),
        (b"[" * 100_000, "content must be a plain object"),
        (b'{"num_ranks": ' + b"9" * 5000 + b"}", "content must be a plain object"),
        (b"\xff\xfe\x00", "file must be UTF-8 text, not binary"),
        (b'{"schema": "multitree.topology.v1"}', "num_ranks must be there, not missing"),
    ],
)
def test_what_is_no_such_json_is_refused_with_file_and_place(tmp_path, content, message):
    path = tmp_path / "wrong.json"
    path.write_bytes(content)
    with pytest.raises(TopologyError, match=f"wrong.json: {message}"):
        load_topology(path)


def test_a_file_that_cannot_be_read_or_written_or_is_too_large_is_refused(tmp_path, monkeypatch):
    with pytest.raises(TopologyError, match=r"none\.json: file must be readable, not No such file"):
        load_topology(tmp_path / "none.json")
    with pytest.raises(TopologyError, match="file must be readable, not Is a directory"):
        load_topology(tmp_path)
    with pytest.raises(TopologyError, match="without null characters"):
        parse_topology("\0.json")
    with pytest.raises(TopologyError, match="file must be writable, not No such file"):
        save_topology(torus(2, 2), tmp_path / "none" / "x.json")
    save_topology(torus(4, 4), tmp_path / "x.json")
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 100)
    with pytest.raises(TopologyError, match=r"x\.json: file must be at most 100 bytes, not \d+"):
        load_topology(tmp_path / "x.json")
    monkeypatch.undo()
    monkeypatch.setattr(files, "MAX_LINKS", 63)
    with pytest.raises(TopologyError, match="links must be at most 63, not 64"):
        load_topology(tmp_path / "x.json")
