"""Stored results: given back as they were, or not trusted."""

import json
from dataclasses import replace

import pytest

from multitree import SweepError
from multitree.host.evaluation.point import Point, PointResult
from multitree.host.evaluation.sources import Source
from multitree.host.evaluation.store import Store, point_key
from tests.topology.test_file_io import file_limit

POINT = Point("ring:4", "ring", 4096, "analytic")
FAMILY = Source("ring:4", None)
RESULT = PointResult(num_ranks=4, cycles=1428, time_us=1.428, exact=True, limited="é")


def stored(folder, key="k"):
    """The file of a result that is stored."""
    with Store(folder).opened() as store:
        store.put(key, POINT, RESULT)
    return folder / "points" / f"{key}.json"


def test_a_result_is_given_back_as_it_was(tmp_path):
    stored(tmp_path / "new" / "folder")
    store = Store(tmp_path / "new" / "folder")
    assert store.get("k") == RESULT
    assert store.get("other") is None
    assert store.num_damaged == 0


def test_of_a_file_that_was_cut_or_changed_anywhere_nothing_is_trusted(tmp_path):
    path = stored(tmp_path)
    whole = path.read_bytes()
    begin, end = whole.index(b'"result"'), len(whole)
    store = Store(tmp_path)
    for length in range(0, end - 2, 7):
        path.write_bytes(whole[:length])
        assert store.get("k") is None
    tried = range(begin + 8, whole.index(b'"sha256"') - 2, 3)
    for at in tried:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert store.get("k") in (None, RESULT)  # a space may have become a tab
    assert store.num_damaged > 40 + len(tried) // 2
    for other in (b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"key": "k"}'):
        path.write_bytes(other)
        assert store.get("k") is None
    path.write_bytes(whole)
    assert store.get("k") == RESULT


def test_a_file_under_the_name_of_another_is_not_trusted(tmp_path):
    path = stored(tmp_path)
    path.rename(path.with_name("l.json"))
    store = Store(tmp_path)
    assert (store.get("l"), store.num_damaged) == (None, 1)
    entry = json.loads(path.with_name("l.json").read_text())
    path.with_name("l.json").write_text(json.dumps(entry | {"key": "l"}))
    assert (store.get("l"), store.num_damaged) == (None, 2)
    path.mkdir()
    assert (store.get("k"), store.num_damaged) == (None, 3)


def test_of_columns_that_are_no_more_nothing_is_trusted(tmp_path, monkeypatch):
    stored(tmp_path)
    monkeypatch.setattr("multitree.host.evaluation.store.PointResult", lambda num_ranks: None)
    assert Store(tmp_path).get("k") is None


def test_a_key_depends_on_every_parameter_the_file_and_the_code():
    other = {"clock_ghz": 2.0, "root": 1, "lockstep": True, "ranks": "0-1", "topology": "ring:5"}
    keys = [point_key(POINT, FAMILY, "code")]
    keys += [point_key(replace(POINT, **{name: other[name]}), FAMILY, "code") for name in other]
    keys += [point_key(POINT, FAMILY, "core"), point_key(POINT, Source("ring:4", "ab"), "code")]
    assert len(set(keys)) == len(keys)
    assert point_key(replace(POINT), Source("/elsewhere", None), "code") == keys[0]


def test_a_folder_is_of_one_sweep_at_a_time(tmp_path):
    again = Store(tmp_path).opened()
    with Store(tmp_path).opened(), pytest.raises(SweepError, match=r"must be of one sweep at a"):
        again.__enter__()
    with Store(tmp_path).opened():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["points"]


def test_what_a_killed_process_has_left_is_removed(tmp_path):
    path = stored(tmp_path)
    left = [tmp_path / ".multitree-0a.tmp", path.parent / ".multitree-0b.tmp"]
    for each in left:
        each.touch()
    with Store(tmp_path).opened() as store:
        assert store.get("k") == RESULT
    assert not any(each.exists() for each in left)


def test_a_full_disk_leaves_nothing_under_the_name(tmp_path):
    with Store(tmp_path).opened() as store, file_limit(100), pytest.raises(OSError, match="large"):
        store.put("k", POINT, RESULT)
    assert list((tmp_path / "points").iterdir()) == []
