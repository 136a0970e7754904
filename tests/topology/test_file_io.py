"""A file is the old one or the new one, whatever goes wrong, and leaves no other."""

import contextlib
import errno
import os
import resource
import stat
from pathlib import Path

import pytest

from multitree import ScheduleError, build, load_schedule, save_schedule, torus
from multitree.topology import file_io
from multitree.topology.file_io import replacing, write_file, write_files

LIMIT = 4096


@contextlib.contextmanager
def file_limit(num_bytes):
    """No file may grow beyond so many bytes; to a program that is like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_file_is_new_or_replaced_and_nothing_is_beside_it(tmp_path):
    path = tmp_path / "file"
    for content in ("one\r\n", b"\xff two"):
        write_file(path, content)
        expected = content.encode() if isinstance(content, str) else content
        assert contents(tmp_path) == {"file": expected}


def test_what_does_not_fit_leaves_the_old_file_and_names_it(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with file_limit(LIMIT), pytest.raises(OSError, match="File too large") as raised:
        write_file(path, "x" * (LIMIT + 1))
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(path))
    assert contents(tmp_path) == {"file": b"old"}


def test_a_schedule_that_does_not_fit_leaves_the_one_that_was_there(tmp_path):
    path = tmp_path / "kept.json"
    small = build(torus(2, 2), "multitree")
    save_schedule(small, path)
    with file_limit(LIMIT), pytest.raises(ScheduleError) as raised:
        save_schedule(build(torus(4, 4), "multitree"), path)
    assert str(raised.value) == f"{path}: file must be writable, not: File too large"
    assert load_schedule(path).hash == small.hash
    assert list(contents(tmp_path)) == ["kept.json"]


def test_of_several_files_all_are_new_or_all_are_old(tmp_path):
    folder = tmp_path / "a" / "b"
    write_files(folder, {"one": "1", "two": "2"})
    with file_limit(LIMIT), pytest.raises(OSError) as raised:
        write_files(folder, {"one": "new", "two": "x" * (LIMIT + 1), "three": "new"})
    assert raised.value.filename == str(folder / "two")
    assert contents(folder) == {"one": b"1", "two": b"2"}
    (folder / "three").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        write_files(folder, {"one": "new", "three": "new"})
    assert raised.value.filename == str(folder / "three")
    assert (folder / "one").read_text() == "1" and len(list(folder.iterdir())) == 3


def test_folders_that_were_made_for_nothing_are_removed(tmp_path):
    with file_limit(LIMIT), pytest.raises(OSError):
        write_files(tmp_path / "a" / "b", {"one": "x" * (LIMIT + 1)})
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(file_io, "_synchronise", interrupt)
    for attempt in (lambda: write_file(path, "new"), lambda: write_files(tmp_path, {"file": "n"})):
        with pytest.raises(KeyboardInterrupt):
            attempt()
        assert contents(tmp_path) == {"file": b"old"}


def test_an_interrupt_between_two_names_waits_until_both_are_given(tmp_path, monkeypatch):
    real, calls = os.replace, []

    def replace(*pair):
        calls.append(pair)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*pair)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        write_files(tmp_path, {"one": "1", "two": "2", "three": "3"})
    assert contents(tmp_path) == {"one": b"1", "two": b"2", "three": b"3"}


def test_permissions_stay_and_new_files_have_those_of_the_process(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new", "")
        write_file(tmp_path / "old", "")
        (tmp_path / "old").chmod(0o755)
        write_file(tmp_path / "old", "again")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"new": 0o640, "old": 0o755}


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "link").symlink_to("file")
    for content in ("made", "changed"):
        write_file(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "file").read_text() == content


def test_a_device_is_written_to_and_stays_one():
    write_file("/dev/null", "gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_file("/dev/full", "gone")
    assert raised.value.filename == "/dev/full"
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize("name", ["no/such/file", "x" * 300, "."])
def test_a_path_that_cannot_be_is_named(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(OSError) as raised:
        write_file(path, "")
    assert raised.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


def test_what_the_block_raises_is_named_only_if_it_is_of_the_file(tmp_path):
    path = tmp_path / "file"
    for error, name in ((OSError(28, "full"), str(path)), (OSError(2, "gone", "else"), "else")):
        with pytest.raises(OSError) as raised, replacing(path) as temporary:
            assert temporary.parent == tmp_path and temporary.read_bytes() == b""
            raise error
        assert (raised.value.errno, raised.value.filename) == (error.errno, name)
    with pytest.raises(ZeroDivisionError), replacing(Path(path)):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []
