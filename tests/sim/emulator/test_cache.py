"""The cache: one thing per key, whole or not at all, whoever wants it."""

import multiprocessing
import os
import time

import pytest

from multitree.nic.faults import DeviceError
from multitree.sim.emulator.cache import (
    cache_folder,
    cache_size_bytes,
    cached,
    clear_cache,
    content_key,
)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTITREE_CACHE", str(tmp_path / "cache"))


def fill(folder):
    (folder / "thing").write_text("whole")


def test_the_folder_is_named_by_the_environment_or_lies_in_the_home(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("MULTITREE_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "multitree"


def test_a_thing_is_made_once():
    made = []

    def make(folder):
        made.append(folder)
        fill(folder)

    first = cached("library", "key", make)
    assert cached("library", "key", make) == first and len(made) == 1
    assert (first / "thing").read_text() == "whole"
    assert cached("library", "other", make) != first and len(made) == 2


def test_what_fails_leaves_nothing_behind_and_can_be_tried_again():
    def fail(folder):
        fill(folder)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cached("library", "key", fail)
    assert list(cache_folder().iterdir()) == []
    assert (cached("library", "key", fill) / "thing").exists()


def _slow_make(folder):
    with (folder.parent / "log").open("a") as log:
        log.write("made\n")
    time.sleep(0.3)
    fill(folder)


def _want(_):
    return str(cached("library", "key", _slow_make))


def test_processes_that_want_the_same_thing_at_once_make_it_once():
    cache_folder().mkdir()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len(set(pool.map(_want, range(4), chunksize=1))) == 1
    assert (cache_folder() / "log").read_text() == "made\n"


def test_what_a_killed_process_left_is_removed_when_the_thing_is_made_again():
    child = os.fork()
    if not child:
        cached("library", "key", lambda folder: fill(folder) or os.kill(os.getpid(), 9))
    os.waitpid(child, 0)
    (cache_folder() / "library-other.1.unfinished").mkdir()
    assert len(list(cache_folder().glob("library-key.*"))) == 2  # the thing and its lock
    cached("library", "key", fill)
    names = sorted(entry.name for entry in cache_folder().iterdir())
    assert names == ["library-key", "library-other.1.unfinished"]


def test_processes_that_come_one_after_the_other_make_it_once_though_the_lock_file_goes():
    """One that fails lets the next try, while others wait for a lock file that it removes."""
    cache_folder().mkdir()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        found = pool.map(_want_badly, range(8), chunksize=1)
    log = (cache_folder() / "log").read_text().split()
    assert log.count("made") == 1 and log.count("failed") == found.count("failed") >= 1
    assert not list(cache_folder().glob("*.lock"))


def _fail_twice(folder):
    log = folder.parent / "log"
    if not log.exists() or log.read_text().count("failed") < 2:
        with log.open("a") as file:
            file.write("failed\n")
        time.sleep(0.1)
        raise RuntimeError("no")
    _slow_make(folder)


def _want_badly(_):
    try:
        return str(cached("library", "key", _fail_twice))
    except RuntimeError:
        return "failed"


def test_size_and_clearing_count_what_is_ours_and_touch_nothing_else():
    assert cache_size_bytes() == 0 and clear_cache() == 0
    cached("library", "a", fill)
    cached("verilog", "b", fill)
    (cache_folder() / "library-c.half").mkdir()
    (cache_folder() / "notes").write_text("mine")
    assert cache_size_bytes() == 10
    assert clear_cache() == 10 and cache_size_bytes() == 0
    assert [entry.name for entry in cache_folder().iterdir()] == ["notes"]


def test_keys_differ_wherever_a_part_differs():
    keys = {content_key(*p) for p in [("a", "b"), ("ab",), ("a", "b", ""), ("b", "a"), ("a", b"c")]}
    assert len(keys) == 5 and content_key("a", "b") == content_key("a", b"b")


def test_a_folder_that_cannot_be_written_is_an_error_that_names_the_variable(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MULTITREE_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(DeviceError, match=r"must be writable, but: .*MULTITREE_CACHE"):
        cached("library", "key", fill)


def test_only_known_kinds_are_cached():
    with pytest.raises(ValueError, match="Kind must be one of library, runtime, verilog, not 'x'"):
        cached("x", "key", fill)
