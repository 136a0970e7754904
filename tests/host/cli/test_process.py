"""The process around a command: signals, closed pipes, full disks, progress."""

import contextlib
import errno
import importlib.metadata
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import multitree
from multitree import build, torus, verify
from multitree.host.cli import output as cli_progress
from multitree.host.cli.main import main
from multitree.host.cli.output import Working
from multitree.host.cli.process import Verbosity, chosen_verbosity, run_command, set_verbosity
from multitree.topology.errors import report, reported_to
from tests.emulation import needs_rtl
from tests.programs import python, start
from tests.sim.emulator.test_verilator import SOURCE, VERILOG
from tests.sim.test_native_build import gone

COMPILE = f"""
import sys
from multitree.host.cli.process import run_command
from multitree.sim.emulator.verilator import build_library
modules = ({VERILOG.replace("STEP", "8'd1")!r}, {{"count.cpp": {SOURCE!r}}})
sys.exit(run_command(lambda: build_library(*modules, top="counter", say=lambda _: None)))
"""
COMMAND = [sys.executable, "-m", "multitree"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_a_status_and_handlers_are_as_before(capfd, number):
    before = signal.getsignal(number)
    cleaned = []

    def command():
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        finally:
            os.kill(os.getpid(), number)  # the second one does not disturb what cleans up
            cleaned.append(True)

    assert run_command(command) == 128 + number
    assert cleaned and signal.getsignal(number) is before
    assert capfd.readouterr().err == f"multitree: ended by {number.name}\n"


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_command(lambda: os.kill(os.getpid(), signal.SIGHUP)) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_while_modules_are_loaded_says_nothing():
    code = "import os, signal, sys; sys.argv = ['multitree']; import multitree.__main__; "
    code += "assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL"
    python("-c", code)


@needs_rtl
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_library_is_compiled_leaves_no_library_and_no_compiler(tmp_path, number):
    cache = tmp_path / "cache"
    environment = os.environ | {"MULTITREE_CACHE": str(cache), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", COMPILE]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not (children := compilers(cache)) and process.poll() is None:
        time.sleep(0.05)
    assert children and any(cache.glob("library-*/made/build/*.cpp"))
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert process.stderr.read() == f"multitree: ended by {number.name}\n"
    assert gone(children)
    assert list(cache.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def compilers(folder):
    """Process ids of compilers, and what they have started, that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes()
            if b"cc1plus\0" in line and os.fsencode(folder) in line:
                found.append(int(path.parent.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--json"], []])
@pytest.mark.parametrize("spec", ["ring:4", "torus:8x8"])
def test_a_reader_that_has_seen_enough_is_no_failure(spec, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    done = start(*COMMAND, "table", spec, *arguments, stdout=writing)
    os.close(writing)
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["table", "ring:4"], ["table", "ring:4", "--json"]])
def test_output_that_cannot_be_written_is_an_error(arguments):
    with open("/dev/full", "w") as full:
        done = start(*COMMAND, *arguments, status=2, stdout=full)
    assert done.stderr == "multitree: standard output: No space left on device\n"


@pytest.mark.slow
def test_closed_outputs_are_no_traceback():
    command = " ".join([*COMMAND, "table", "ring:4"])
    done = start("bash", "-c", f"{command} >&-", status=2)
    assert done.stderr == "multitree: standard output must be open\n"
    assert start("bash", "-c", f"{command} --rank 9 2>&-", status=2).stdout == ""


@pytest.mark.slow
def test_a_name_that_is_no_text_is_printed_all_the_same(tmp_path):
    name = tmp_path / os.fsdecode(b"net\xff.json")
    for more in (["ring:4", "--out", name], [name]):
        done = start(*COMMAND, "topology", *more)
        assert done.stderr == ""
    assert done.stdout.startswith("Topology net\\udcff.json\n")


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (OSError(errno.ENOSPC, "No space", "file"), 2, "multitree: file: No space\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe", "pipe"), 2, "multitree: pipe: Broken pipe\n"),
        (OSError(errno.ENOMEM, "No memory"), 2, "multitree: No memory\n"),
        (MemoryError(), 2, "multitree: memory must suffice, but this machine gives no more of it"),
    ],
)
def test_a_system_call_that_fails_is_one_sentence_with_the_path(capfd, error, status, says):
    def command():
        raise error

    assert run_command(command) == status
    assert capfd.readouterr().err.startswith(says)


def test_the_version_is_that_of_the_package(run):
    assert multitree.__version__ == importlib.metadata.version("multitree")
    assert run.printed("--version") == f"multitree {multitree.__version__}\n"


@pytest.mark.parametrize("command", ["", "table", "doctor"])
def test_help_has_a_short_option_everywhere(run, command):
    texts = [run.printed(f"{command} {option}") for option in ("-h", "--help")]
    assert texts[0] == texts[1] and "Usage: multitree" in texts[0]
    assert all(option in texts[0] for option in ("-h, --help", "-v, --verbose", "-q, --quiet"))


@pytest.mark.slow
def test_shells_complete_commands_and_options():
    for words, expected in (("multitree ver", ["verify", "verilog"]), ("multitree table --ra", 0)):
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = start(*COMMAND, _MULTITREE_COMPLETE="complete_bash", **asked)
        assert sorted(done.stdout.split()) == (expected or ["--rank", "--ranks"])
        assert done.stderr == ""


@pytest.mark.parametrize("place", ["before", "behind"])
@pytest.mark.parametrize("option", ["-v", "--verbose", "-q", "--quiet", None])
def test_progress_is_said_where_it_is_asked_for(capfd, monkeypatch, option, place):
    arguments = ["doctor"] if option is None else ["doctor", option]
    chosen = []

    def diagnose():
        chosen.append(chosen_verbosity())
        return {
            "versions": {"one": "1"},
            "engines": [{"name": "one", "reason": None}],
            "cache": {"path": "", "size_bytes": 0, "damaged": []},
        }

    monkeypatch.setattr("multitree.host.cli.doctor.diagnose", diagnose)
    assert main(arguments[:: -1 if place == "before" else 1] + ["--json"] * (option is None)) == 0
    expected = {"v": Verbosity.VERBOSE, "q": Verbosity.QUIET}
    assert chosen == [expected[option.strip("-")[0]] if option else Verbosity.TERMINAL]
    assert main(["-q", "doctor", "-q"]) == 0
    assert main(["doctor", "-q", "-v"]) == 2
    assert capfd.readouterr().err == "multitree: Options must be --verbose or --quiet, not both\n"


def working(verbosity):
    """Wait for long, and say so."""
    set_verbosity(verbosity)
    try:
        with Working("Cooking") as work:
            work.say("Soup first.")
            report("peeling", 3, 4000)
            time.sleep(0.3)
            report("boiling")
            time.sleep(0.2)
    finally:
        set_verbosity(Verbosity.TERMINAL)


def test_builds_and_proofs_say_how_far_they_have_come():
    said = []
    with reported_to(said.append):
        verify(build(torus(4, 4), "multitree"))
    grown = [line for line in said if line.startswith("growing trees, edges added, ")]
    assert grown[0] != grown[1] and grown[-1].endswith(" of 240")
    proved = [line for line in said if line.startswith("verifying 480 transfers, proofs done, ")]
    assert proved[0].endswith(", 0 of 10") and proved[-1].endswith(", 9 of 10")


@pytest.mark.parametrize("command", ["schedule", "verify"])
def test_a_long_command_is_not_silent(capfd, monkeypatch, command):
    monkeypatch.setattr(cli_progress, "EVERY_LINE_SECONDS", 0.0)
    assert main([command, "torus:4x4", "-v"]) == 0
    said = capfd.readouterr().err.splitlines()
    assert "Building multitree on torus:4x4 ..." in said
    assert any("growing trees, edges added, " in line for line in said)
    verifying = ["verifying 480 transfers, proofs done, 5 of 10" in line for line in said]
    assert any(verifying) == (command == "verify")


def test_into_a_file_progress_is_lines_and_only_if_asked_for(capfd, monkeypatch):
    monkeypatch.setattr(cli_progress, "EVERY_LINE_SECONDS", 0.2)
    for verbosity in (Verbosity.QUIET, Verbosity.TERMINAL):
        working(verbosity)
        assert capfd.readouterr() == ("", "")
    working(Verbosity.VERBOSE)
    assert capfd.readouterr() == ("", "Cooking ...\nSoup first.\nCooking: boiling (0 s)\n")


def test_on_a_terminal_it_is_a_line_that_changes(monkeypatch):
    monkeypatch.setattr(cli_progress, "QUIET_SECONDS", 0.05)
    monkeypatch.setenv("TERM", "xterm")
    for verbosity in (Verbosity.QUIET, Verbosity.TERMINAL):
        reading, writing = pty.openpty()
        with os.fdopen(writing, "w") as terminal, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal)
            working(verbosity)
            terminal.write("end")
            terminal.flush()
            shown = ""
            while not shown.endswith("end"):
                shown += os.read(reading, 100_000).decode()
        os.close(reading)
        assert ("Cooking: boiling" in shown) == (verbosity is Verbosity.TERMINAL)
        assert (shown == "end") == (verbosity is Verbosity.QUIET)
