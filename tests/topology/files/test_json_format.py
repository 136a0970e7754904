"""A schedule survives a file with its hash; a wrong one is refused by place."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from multitree import ScheduleError, Topology, TopologyError, build, parse_topology, ring
from multitree.topology.file_io import MAX_DEPTH, MAX_DIGITS, MAX_FILE_BYTES
from multitree.topology.files import load_save
from multitree.topology.files.json_format import MAX_STEPS
from multitree.topology.files.load_save import (
    load_file,
    load_schedule,
    save_schedule,
    save_topology,
)
from multitree.topology.networks.nodes import MAX_LINKS, MAX_RANKS
from tests.refusals import refuses

CASES = [
    ("torus:3x3", "multitree", "all_reduce", None),
    ("fat_tree:2x2", "multitree", "all_reduce", None),
    ("bigraph:2x4", "hdrm", "reduce_scatter", None),
    ("mesh:3x3", "ring", "all_gather", None),
    ("torus:4x4", "bidirectional_ring_2d", "all_reduce", None),
    ("hypercube:3", "halving_doubling", "broadcast", 5),
    ("dgx2", "double_tree", "reduce", 3),
    ("mesh:3x3", "forest", "all_reduce", None),
]
RING = build(ring(3), "multitree")
"""12 rows: of each of 3 flows 2 REDUCE and 2 GATHER."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_schedule_has_the_same_hash_after_it_was_saved_and_loaded(tmp_path, case):
    schedule = build(parse_topology(case[0]), *case[1:])
    save_schedule(schedule, tmp_path / "saved.json")
    back = load_schedule(tmp_path / "saved.json")
    assert back.hash == schedule.hash
    assert (back.num_waves, back.period) == (schedule.num_waves, schedule.period)
    assert (back.num_waves > 1) == ("forest" in case)
    assert (back.algorithm, back.collective, back.root) == case[1:]
    assert back.topology.name == "saved.json"


def test_odd_speeds_names_and_offsets_are_kept(tmp_path):
    odd = Topology("odd", 3, 0, RING.topology.links, [0.1, 1e-9, 1 / 3, 7e20, 5e-324, 2.0], 0.3)
    offsets = np.array([0, 0, 2**62, 2**63 - 1])
    schedule = replace(RING, topology=odd, flow_offsets=offsets, algorithm="höher & <breiter>")
    save_schedule(schedule, tmp_path / "odd.json")
    back = load_schedule(tmp_path / "odd.json")
    assert (back.hash, back.algorithm) == (schedule.hash, schedule.algorithm)


def test_a_json_file_has_one_row_per_line_and_the_topology_as_in_a_file_of_its_own(tmp_path):
    save_schedule(RING, tmp_path / "ring.json")
    save_topology(RING.topology, tmp_path / "topology.json")
    text = (tmp_path / "ring.json").read_text()
    content = json.loads(text)
    keys = ["schema", "algorithm", "collective", "root", "topology", "flow_offsets", "rows"]
    assert list(content) == keys
    assert content["topology"] == json.loads((tmp_path / "topology.json").read_text())
    assert '\n    [0, "REDUCE", 0, 1, 0, 0, [2], [0]],\n' in text


def test_what_is_loaded_is_verified_and_so_is_what_is_saved(tmp_path):
    path = tmp_path / "wrong.json"
    wrong = replace(RING, src=RING.dst, dst=RING.src)
    refuses(ScheduleError, "route must be a path from src", save_schedule, wrong, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_save, "check_schedule", lambda schedule: None)
        save_schedule(wrong, path)
    refuses(ScheduleError, r"wrong\.json: Row 0 \(step 0.*route must be a pa", load_schedule, path)


def test_verifying_a_file_measures_nothing_that_takes_long(tmp_path, monkeypatch):
    monkeypatch.setattr(Topology, "diameter", property(lambda self: pytest.fail("was measured")))
    save_schedule(RING, tmp_path / "ring.json")
    load_schedule(tmp_path / "ring.json")


def test_a_file_that_holds_either_is_read_as_its_schema_says(tmp_path):
    for suffix in (".json", ".graphml"):
        save_topology(RING.topology, tmp_path / f"network{suffix}")
        assert load_file(tmp_path / f"network{suffix}").num_links == 6
    save_schedule(RING, tmp_path / "schedule.json")
    assert load_file(tmp_path / "schedule.json").hash == RING.hash
    with pytest.raises(ScheduleError, match=r"schema must be multitree\.schedule\.v1, not 'mul"):
        load_schedule(tmp_path / "network.json")
    (tmp_path / "list.json").write_text("[]")
    refuses(TopologyError, "content must be an object", load_file, tmp_path / "list.json")
    (tmp_path / "wrong.json").write_text('{"schema": "multitree.schedule.v1"}')
    with pytest.raises(ScheduleError, match=r"wrong\.json: key algorithm of content must be there"):
        load_file(tmp_path / "wrong.json")


def row(**changes):
    """The schedule's first row in JSON, with some of its fields changed."""
    fields = ("step", "op", "flow", "src", "dst", "order", "links", "classes")
    entries = dict(zip(fields, [0, "REDUCE", 0, 1, 0, 0, [2], [0]], strict=True))
    return list((entries | changes).values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "multitree.schedule.v2"}, "schema must be multitree.schedule.v1, not 'mult"),
        ({"algorithm": ""}, "algorithm must be 1 to 100 printable characters .*, not ''"),
        ({"algorithm": "a\x1b[2J"}, r"algorithm must be .*, not 'a\\x1b\[2J'"),
        ({"algorithm": " a"}, "algorithm must be .* without spaces around, not ' a'"),
        ({"algorithm": "a" * 101}, "algorithm must be 1 to 100 printable characters"),
        ({"algorithm": None}, "algorithm must be .*, not None"),
        ({"collective": "all_to_all"}, "collective must be all_reduce or .*, not 'all_to_all'"),
        ({"collective": ["reduce"]}, r"collective must be .*, not \['reduce'\]"),
        ({"collective": "reduce"}, "Root must be a rank 0..2, not None"),
        ({"root": 0}, "Root of all_reduce must be None, not 0"),
        ({"root": 3}, "root must be an integer within 0..2, not 3"),
        ({"root": True}, "root must be an integer within 0..2, not True"),
        ({"topology": None}, "topology must be an object, not None"),
        ({"topology": {}}, "topology.schema must be multitree.topology.v1, not None"),
        ({"num_ranks": 10**9}, "topology.num_ranks must be an integer within 2..65536, not 1000"),
        ({"links": [[0, 3, 1, 1]]}, r"topology.links\[0\]\[1\] must be an integer within 0..2"),
        ({"links": []}, "Every node of 'wrong.json' must be reachable"),
        ({"flow_offsets": 3}, "flow_offsets must be a list, not 3"),
        ({"flow_offsets": [3]}, "flow_offsets must be at least two numbers, not 1"),
        ({"flow_offsets": [0, 1, 2, 2**63]}, r"flow_offsets\[3\] must be an integer within 0..9"),
        ({"flow_offsets": [0, 1, 2, 1]}, "Flow offsets must not fall, not go from 2 to 1"),
        ({"flow_offsets": [0] * 9}, "rows must be at least 16 for 8 flows on 3 ranks, not 12"),
        ({"rows": {}}, r"rows must be a list, not \{...\}"),
        ({"rows": []}, "rows must be at least 6 for 3 flows on 3 ranks, not 0"),
        ({"row": 3}, r"rows\[0\] must be \[step, op, .*, classes\], not 3"),
        ({"row": [0] * 7}, r"rows\[0\] must be \[step, op, .*, classes\], not \[0, 0, 0, 0, 0,"),
        ({"row": row(step=MAX_STEPS)}, r"rows\[0\]\[0\] must be an integer within 0..1048575"),
        ({"row": row(op="NOP")}, r"rows\[0\]\[1\] must be REDUCE or GATHER, not 'NOP'"),
        ({"row": row(op=[])}, r"rows\[0\]\[1\] must be REDUCE or GATHER, not \[\]"),
        ({"row": row(flow=3)}, r"rows\[0\]\[2\] must be an integer within 0..2, not 3"),
        ({"row": row(src=-1)}, r"rows\[0\]\[3\] must be an integer within 0..2, not -1"),
        ({"row": row(dst=0.0)}, r"rows\[0\]\[4\] must be an integer within 0..2, not 0.0"),
        ({"row": row(order=False)}, r"rows\[0\]\[5\] must be an integer within 0..2, not False"),
        ({"row": row(links=2)}, r"rows\[0\]\[6\] must be a list, not 2"),
        ({"row": row(links=[2, 6])}, r"rows\[0\]\[6\]\[1\] must be an integer within 0..5, not 6"),
        ({"row": row(classes=[256])}, r"rows\[0\]\[7\]\[0\] must be an integer within 0..255"),
        ({"row": row(links=[])}, r"rows\[0\] must have as many links as classes, .* 0 and 1"),
        ({"row": row(classes=[0, 0])}, r"rows\[0\] must have as many links as .*, not 1 and 2"),
        ({"row": row(links=[], classes=[])}, r"rows\[0\] must have .* at least 1, not 0 and 0"),
        ({"row": row(links=[2] * 99, classes=[0] * 99)}, r"not links \[\[1, 0\], .*, \.\.\.\]$"),
        ({"row": row(step=9)}, r"Row 1 .* rows must ascend by \(step, flow, src, dst\)"),
        ({"row": row(order=1)}, "Row 0 .* order must number the siblings"),
        ({"more": 1}, "keys of content must be schema, algorithm, .*, rows, not 'more'"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_entry_is_refused_with_file_and_place(tmp_path, change, message):
    path = tmp_path / "wrong.json"
    save_schedule(RING, path)
    content = json.loads(path.read_text())
    for key, value in change.items():
        if key == "row":
            content["rows"][0] = value
        elif key in content["topology"] and key != "schema":
            content["topology"][key] = value
        else:
            content[key] = value
    path.write_text(json.dumps(content))
    refuses(ScheduleError, f"wrong.json: .*{message}", load_schedule, path)


def test_a_schedule_in_graphml_is_refused_since_schedules_are_json_files(tmp_path):
    path = tmp_path / "plan.graphml"
    with pytest.raises(ScheduleError, match=r"plan\.graphml: schedule must be in a JSON file, not"):
        save_schedule(RING, path)
    save_topology(RING.topology, path)
    with pytest.raises(ScheduleError, match=r"plan\.graphml: schedule must be in a JSON file, not"):
        load_schedule(path)
    path.write_text(path.read_text().replace("multitree.topology.v1", "multitree.schedule.v1"))
    refuses(TopologyError, r"schema must be .* schedules are JSON files", load_file, path)


def test_a_name_that_cannot_be_read_back_and_a_path_that_is_none_are_refused(tmp_path):
    with pytest.raises(ScheduleError, match=r"x\.json: algorithm must be 1 to 100 printable"):
        save_schedule(replace(RING, algorithm="\n"), tmp_path / "x.json")
    with pytest.raises(ScheduleError, match="file must be writable, not: No such file"):
        save_schedule(RING, tmp_path / "none" / "x.json")
    with pytest.raises(ScheduleError, match=r"none\.json: file must be readable, not: No such"):
        load_schedule(tmp_path / "none.json")


def test_many_flows_on_many_ranks_are_refused_before_anything_is_made_for_each(tmp_path):
    path = tmp_path / "wrong.json"
    save_schedule(RING, path)
    content = json.loads(path.read_text())
    save_topology(ring(20_000), path)
    content["topology"] = json.loads(path.read_text())
    content |= {"flow_offsets": [0, *range(1_000_000)], "rows": [row()] * 100}
    path.write_text(json.dumps(content))
    with pytest.raises(ScheduleError, match="rows must be at least 19999000000 for 1000000 flows"):
        load_schedule(path)


def test_the_examples_of_the_document_are_read_and_its_limits_are_those_of_the_code(tmp_path):
    text = (Path(__file__).parents[3] / "docs" / "files.md").read_text()
    kinds = []
    for form, example in re.findall(r"```(json|xml)\n(.*?)```", text, re.S):
        path = tmp_path / f"example.{'graphml' if form == 'xml' else form}"
        path.write_text(example)
        kinds.append((form, type(load_file(path)).__name__))
    assert kinds == [("json", "Topology"), ("xml", "Topology"), ("json", "Schedule")]
    for limit in (MAX_FILE_BYTES, MAX_RANKS, MAX_LINKS, MAX_STEPS - 1):
        assert f"{limit:,}".replace(",", " ") in text
    assert f"| levels of nesting | {MAX_DEPTH} |" in text
    assert f"| digits of a number | {MAX_DIGITS} |" in text
