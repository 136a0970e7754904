"""Text of a sweep file: what is read, and that all else is refused with its place."""

import pytest

from multitree.host.evaluation import definition
from multitree.host.evaluation.definition import read_entries
from multitree.topology.errors import ContentError
from tests.refusals import refuses


def entries(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    path.write_bytes(text.encode())
    return read_entries(str(path))


@pytest.mark.every_set
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("torus:4x4", "torus:4x4"),
        ("[1, 0, -3, +7]", [1, 0, -3, 7]),
        ("[1.5, .5, 2., 1e-3, 1E+2]", [1.5, 0.5, 2.0, 0.001, 100.0]),
        ("[true, false, null, ~]", [True, False, None, None]),
        ("[True, FALSE, Null, NULL]", [True, False, None, None]),
        ("", None),
        ("[yes, no, on, off, tRUE]", ["yes", "no", "on", "off", "tRUE"]),
        ("[010, 0x10, 1_000, 1:30, 2020-01-01]", ["010", "0x10", "1_000", "1:30", "2020-01-01"]),
        ("[\"1\", '2', 'true']", ["1", "2", "true"]),
        ("\n  - 32KiB # the smaller one\n  - 1MiB", ["32KiB", "1MiB"]),
        ("[]", []),
        (".nan", ".nan"),
        ("1" * 31, int("1" * 31)),
    ],
)
def test_values_are_those_of_yaml_1_2(tmp_path, text, value):
    found, places = entries(tmp_path, f"# a comment\nkey: {text}\n")
    assert found == {"key": value}
    assert [type(each) for each in found.values()] == [type(value)]
    assert places == {"key": "line 2, column 1"}


def test_keys_keep_their_order(tmp_path):
    found, places = entries(tmp_path, "b: 1\na: [2, 3]\n\nc: x")
    assert list(found.items()) == [("b", 1), ("a", [2, 3]), ("c", "x")]
    assert places["c"] == "line 4, column 1"


@pytest.mark.every_set
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "file must have keys with values, not nothing"),
        ("# only a comment\n", "file must have keys with values, not nothing"),
        ("word", "line 1, column 1: file must be keys with values, not a single value"),
        ("- a\n- b", "line 1, column 1: file must be keys with values, not a list"),
        ("a: 1\na: 2", "line 2, column 1: 'a' must stand once, not also line 1, column 1"),
        ("a: 1\n'a': 2", "line 2, column 1: 'a' must stand once, not also line 1, column 1"),
        ("a: {b: 1}", "line 1, column 4: 'a' must have a value or a list .*, not keys with values"),
        ("a: [[1]]", "line 1, column 5: 'a' must have a value or a list of values, not a list"),
        ("a: [b: 1]", "line 1, column 5: .* not keys with values"),
        ("? [a]\n: 1", "line 1, column 3: a key must be a word, not a list"),
        ("a: &x [1]\nb: *x", "line 1, column 4: file must be without anchors and aliases"),
        ("a: &x 1", "line 1, column 4: file must be without anchors and aliases"),
        ("a: *x", "line 1, column 4: file must be without anchors and aliases"),
        (
            "a: !!int '3'",
            "line 1, column 4: file must be without tags, not 'tag:yaml.org,2002:int'",
        ),
        ("a: !!python/object:os.system [ls]", "line 1, column 4: file must be without tags"),
        ("a: 1\n---\nb: 2", "line 2, column 1: file must be one document, not more"),
        ("a: [1, 2", "line 1, column 9: file must be YAML, but expected ',' or ']'"),
        ("a:\tb: c", "line 1, column 3: file must be YAML, but"),
        ("a: \x07", "file must be YAML, but"),
        ("[" * 100_000, "line 1, column 1: file must be keys with values, not a list"),
        ("a: " + "[" * 100_000, "line 1, column 5: 'a' must have a value"),
        ("<<: {a: 1}", "line 1, column 5: '<<' must have a value"),
    ],
)
def test_all_else_is_refused_with_its_place(tmp_path, text, problem):
    refuses(ContentError, f"^{problem}", entries, tmp_path, text)


def test_a_file_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    (tmp_path / "bytes.yaml").write_bytes(b"a: \xff")
    for name, problem in (
        ("none.yaml", "readable, not: No such file"),
        (".", "plain file, not a folder"),
        ("bytes.yaml", "line 1, column 4: text must be UTF-8"),
    ):
        refuses(ContentError, problem, read_entries, str(tmp_path / name))
    monkeypatch.setattr(definition, "MAX_CHARACTERS", 4)
    assert entries(tmp_path, "a: 1") == ({"a": 1}, {"a": "line 1, column 1"})
    refuses(ContentError, "at most 4 characters, not 5", entries, tmp_path, "a: 12")
