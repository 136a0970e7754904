"""A design replaces the one before it in a folder, and nothing that is the user's."""

import json
from pathlib import Path

import pytest

from multitree.host.design.manifest import DesignFile, listed_before, replace_design

NAME = "net_manifest.json"


def design(**texts):
    return [DesignFile(f"{stem}.v", stem, text) for stem, text in texts.items()]


def write(folder, force=False, **texts):
    before = listed_before(folder, NAME, force=force)
    facts = {"design": list(texts)}
    return replace_design(folder, NAME, design(**texts), facts, before=before, force=force)


def contents(folder):
    return {path.name: path.read_text("latin-1") for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    """A folder with the design a, b, and a file of the user's."""
    (tmp_path / "mine.v").write_text("mine")
    assert write(tmp_path, a="a1", b="b1") == []
    return tmp_path


def refuses(folder, what, **texts):
    """Writing is refused in a sentence about `what`, and changes nothing."""
    before = contents(folder)
    with pytest.raises(ValueError, match=f"{what}.*; --force replaces") as error:
        write(folder, **texts)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)
    assert contents(folder) == before


def test_files_of_the_design_before_go_and_the_user_s_stay(folder):
    assert write(folder, a="a2", c="c2") == ["b.v"]
    assert set(contents(folder)) == {"mine.v", "a.v", "c.v", NAME}
    assert contents(folder)["a.v"] == "a2"
    assert set(listed_before(folder, NAME)) == {"a.v", "c.v"}
    assert json.loads(contents(folder)[NAME])["design"] == ["a", "c"]
    assert write(folder, a="a2", c="c2") == []


@pytest.mark.parametrize("texts", [{"a": "a2"}, {"b": "b2"}, {"a": "a2", "b": "b2"}])
def test_an_edited_file_is_neither_replaced_nor_removed_unless_forced(folder, texts):
    (folder / "b.v").write_text("b1, edited")
    refuses(folder, r": b\.v", **texts)
    removed = write(folder, force=True, **texts)
    assert removed == sorted({"a.v", "b.v"} - {f"{stem}.v" for stem in texts})
    assert contents(folder).keys() == {"mine.v", NAME} | {f"{stem}.v" for stem in texts}
    assert listed_before(folder, NAME).keys() == {f"{stem}.v" for stem in texts}


def test_a_file_of_the_user_s_is_in_nobody_s_way_but_where_it_has_the_name_of_a_new_one(folder):
    refuses(folder, r": mine\.v", mine="new")
    assert write(folder, force=True, mine="new") == ["a.v", "b.v"]
    assert contents(folder)["mine.v"] == "new"


def test_what_is_as_it_would_be_is_no_hindrance(folder):
    """So a run that was cut short, its files written and its manifest not, can be repeated."""
    (folder / "a.v").write_text("a2")
    (folder / "c.v").write_text("c2")
    assert write(folder, a="a2", c="c2") == ["b.v"]


def test_a_file_that_is_gone_is_not_missed(folder):
    (folder / "b.v").unlink()
    assert write(folder, a="a2") == []


def test_a_link_is_not_followed(folder):
    (folder / "b.v").rename(folder / "elsewhere.v")
    (folder / "b.v").symlink_to("elsewhere.v")
    refuses(folder, r": b\.v", a="a2")
    assert write(folder, force=True, a="a2") == ["b.v"]
    assert contents(folder)["elsewhere.v"] == "b1"


def test_many_edited_files_are_counted(tmp_path):
    texts = {f"f{k}": "old" for k in range(9)}
    write(tmp_path, **texts)
    for stem in texts:
        (tmp_path / f"{stem}.v").write_text("edited")
    refuses(tmp_path, r": f0\.v, f1\.v, f2\.v, f3\.v and 5 more", f0="new")


def entry(name):
    return {"schema": "multitree.manifest.v1", "files": [{"file": name, "sha256": "0"}]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        "\xff",
        json.dumps({"schema": "multitree.manifest.v2", "files": []}),
        *(
            json.dumps(entry(name))
            for name in (1, "", "..", "../a.v", "/etc/a", "a\0", "a/b/c", "a/../b", "-")
        ),
    ],
    ids=lambda text: text[-30:],
)
def test_a_manifest_that_is_none_or_leads_elsewhere_is_refused_unless_forced(folder, text):
    Path(folder / NAME).write_bytes(text.encode("latin-1"))
    refuses(folder, "file must be a manifest", a="a2")
    assert write(folder, force=True, a="a2", b="b2") == []
    assert set(contents(folder)) == {"mine.v", "a.v", "b.v", NAME}


def test_a_file_that_cannot_be_written_leaves_the_design_before_as_it_was(folder):
    before = contents(folder)
    (folder / "c.v").mkdir()
    with pytest.raises(OSError, match=r"c\.v"):
        write(folder, force=True, a="a2", c="c2")
    (folder / "c.v").rmdir()
    assert contents(folder) == before
