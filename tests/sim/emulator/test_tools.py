"""Tools run side by side, and none outlives the one that failed or a signal."""

import os
import signal
import threading
import time
from functools import partial

import pytest

from multitree.nic.faults import DeviceError
from multitree.sim.emulator.tools import Tools
from multitree.topology.progress import reported_to

SLEEP = "sleep 60 & echo $! > $0.child; echo $$ > $0; wait"


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
