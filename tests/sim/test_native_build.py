"""The cache makes each thing once, and damaged ones again; tools end together."""

import multiprocessing
import os
import signal
import threading
import time
from functools import partial

import pytest

from multitree.nic.driver.faults import DeviceError
from multitree.sim.native_build import (
    CacheError,
    Tools,
    cache_folder,
    cache_size_bytes,
    cached,
    clear_cache,
    compiler_path,
    content_key,
    damaged_entries,
    loaded_library,
)
from multitree.topology.errors import reported_to

SLEEP = "sleep 60 & echo $! > $0.child; echo $$ > $0; wait"


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


def _flip(data):
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


DAMAGES = {
    "empty": lambda data: b"",
    "1 000 bytes": lambda data: data[:1000],
    "half": lambda data: data[: len(data) // 2],
    "a flipped bit": _flip,
    "of others": lambda data: b"\xff of others",
    "gone": lambda data: None,
}


def compile_answer(folder):
    """A library whose function returns 42."""
    (folder.parent / "answer.c").write_text("int answer(void) { return 42; }")
    command = [str(compiler_path()), "-shared", "-fPIC", "-x", "c", str(folder.parent / "answer.c")]
    Tools(folder).run([*command, "-o", str(folder / "answer.so")])


def status_of_answer():
    """What a process ends with that asks the library."""
    child = os.fork()
    if not child:
        path = cached("library", "key", compile_answer) / "answer.so"
        os._exit(loaded_library(path).answer())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.every_set
@pytest.mark.parametrize("file", ["answer.so", "SHA256SUMS"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_library_is_made_again_and_ends_no_process(file, damage, capfd):
    path = cached("library", "key", compile_answer) / file
    data = path.read_bytes()
    assert damaged_entries() == {}
    changed = DAMAGES[damage](data)
    path.unlink() if changed is None else path.write_bytes(changed)
    assert [*damaged_entries()] == ([] if changed == data else ["library-key"])
    assert [status_of_answer() for _ in range(2)] == [42, 42]
    said = capfd.readouterr().err.splitlines()
    assert len(said) == (changed != data)
    assert all(f"{path.parent} is made again: it" in line for line in said)
    assert [entry.name for entry in cache_folder().iterdir()] == ["library-key"]


@pytest.mark.parametrize("put", [lambda p: p.write_bytes(b"x"), lambda p: p.symlink_to("nowhere")])
def test_what_is_no_folder_is_made_again_too(put):
    cache_folder().mkdir()
    put(cache_folder() / "library-key")
    assert (cached("library", "key", fill) / "thing").read_text() == "whole"


def test_what_is_damaged_stays_while_it_cannot_be_made_again():
    path = cached("library", "key", fill) / "thing"
    path.write_text("other")
    with pytest.raises(ZeroDivisionError):
        cached("library", "key", lambda folder: 1 / 0)
    assert path.read_text() == "other" and [*damaged_entries()] == ["library-key"]


def test_what_the_system_does_not_load_is_named(tmp_path):
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(DeviceError, match=r"text\.so cannot be loaded: .*file too short"):
        loaded_library(tmp_path / "text.so")


def _slow_make(folder):
    with (cache_folder() / "log").open("a") as log:
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
    log = cache_folder() / "log"
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
    things = list(cache_folder().rglob("thing"))
    assert len(things) == 2 and cache_size_bytes() > 10
    assert clear_cache() > 10 and cache_size_bytes() == 0
    assert [entry.name for entry in cache_folder().iterdir()] == ["notes"]


def test_keys_differ_wherever_a_part_differs():
    keys = {content_key(*p) for p in [("a", "b"), ("ab",), ("a", "b", ""), ("b", "a"), ("a", b"c")]}
    assert len(keys) == 5 and content_key("a", "b") == content_key("a", b"b")


def test_a_folder_that_cannot_be_written_is_an_error_that_names_the_variable(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MULTITREE_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(CacheError, match=r"must be writable, but: .*MULTITREE_CACHE"):
        cached("library", "key", fill)


def test_only_known_kinds_are_cached():
    with pytest.raises(ValueError, match="Kind must be one of library, runtime, verilog, not 'x'"):
        cached("x", "key", fill)


def shell(script, *arguments):
    return ["sh", "-c", script, *map(str, arguments)]


def started(*paths):
    """Process ids of `SLEEP`s and of what they started, once they have."""
    files = [name for path in paths for name in (path, path.with_name(f"{path.name}.child"))]
    while not all(file.is_file() and file.read_text() for file in files):
        time.sleep(0.01)
    return [int(file.read_text()) for file in files]


def is_running(process):
    """Whether a process is there, and not only waited for by nobody."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(processes):
    """Whether they end within ten seconds: who adopts them needs a moment."""
    end = time.monotonic() + 10
    while any(map(is_running, processes)) and time.monotonic() < end:
        time.sleep(0.01)
    return not any(map(is_running, processes))


def test_a_tool_runs_in_the_folder_with_its_temporary_files_and_variables(tmp_path):
    Tools(tmp_path).run(shell('echo "$PWD $TMPDIR $MORE" > out'), {"MORE": "more"})
    assert (tmp_path / "out").read_text() == f"{tmp_path} {tmp_path} more\n"


def test_a_failed_tool_is_reported_with_its_last_words(tmp_path):
    tools = Tools(tmp_path)
    with pytest.raises(DeviceError, match=r"^sh failed while compiling the network: b; c; d$"):
        tools.run(shell("printf 'a\nb\nc\nd\n' >&2; exit 3"))
    with pytest.raises(DeviceError, match=r"^sh failed while .*: ended by SIGXFSZ$"):
        tools.run(shell("kill -XFSZ $$"))


def test_results_come_in_the_order_of_the_jobs_and_are_counted(tmp_path):
    said = []
    with reported_to(said.append):
        jobs = [partial(lambda delay: time.sleep(delay) or delay, d) for d in (0.2, 0.1, 0)]
        assert Tools(tmp_path).side_by_side(jobs, 3, "waiting") == [0.2, 0.1, 0]
    assert said == ["waiting, 1 of 3", "waiting, 2 of 3", "waiting, 3 of 3"]


def test_where_one_fails_all_others_end_and_none_is_started(tmp_path):
    tools, paths = Tools(tmp_path), [tmp_path / "one", tmp_path / "two"]

    def fail():
        started(*paths)
        tools.run(shell("exit 1"))

    jobs = [partial(tools.run, shell(SLEEP, path)) for path in paths]
    jobs += [fail, partial(tools.run, shell("touch $0", tmp_path / "never"))]
    with pytest.raises(DeviceError, match=r"^sh failed while compiling the network: $"):
        tools.side_by_side(jobs, 3, "failing")
    assert gone(started(*paths))
    assert not (tmp_path / "never").exists()
    with pytest.raises(DeviceError, match=r"^sh was not started, since another tool has failed$"):
        tools.run(shell("true"))


@pytest.mark.parametrize("several", [False, True])
def test_an_interrupt_ends_tools_and_what_they_started(tmp_path, several):
    tools, path = Tools(tmp_path), tmp_path / "one"

    def interrupt():
        started(path)
        os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    begin = time.monotonic()
    run = partial(tools.run, shell(SLEEP, path))
    with pytest.raises(KeyboardInterrupt):
        tools.side_by_side([run], 1, "waiting") if several else run()
    helper.join()
    assert time.monotonic() - begin < 30
    assert gone(started(path))
