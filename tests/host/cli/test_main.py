"""The command line loads what a command needs, and no more."""

import inspect
import pkgutil

import pytest

import multitree
from multitree.host.cli import process
from multitree.host.cli.main import COMMANDS, load_command
from tests.programs import python

LOADED = """
import sys
from multitree.host.cli.main import main
status = main(sys.argv[1:])
print(status, *sorted(sys.modules), file=sys.stderr)
"""
LIBRARIES = {"amaranth", "networkx", "numpy", "rich", "yaml"}


def modules_of(*arguments):
    """Our modules, and the libraries, that a command loads."""
    status, *names = python("-c", LOADED, *arguments).stderr.split()
    assert status == "0"
    ours = {name for name in names if name.startswith("multitree.host.cli.")}
    return ours, LIBRARIES & set(names)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"]])
def test_the_help_and_the_version_load_no_command(arguments):
    ours = {f"multitree.host.cli.{name}" for name in ("main", "process")}
    assert modules_of(*arguments) == (ours, set())


def test_no_command_loads_amaranth_or_networkx_before_it_runs():
    code = "import sys; from multitree.host.cli.main import load_command\n"
    code += f"for name in {[*COMMANDS]}: load_command(name)\nprint(*sys.modules)"
    assert LIBRARIES & set(python("-c", code).stdout.split()) == {"numpy", "yaml"}


def test_a_command_loads_no_other_one():
    ours, _ = modules_of("doctor", "--help")
    others = {module for module, _ in COMMANDS.values()} - {"doctor"}
    assert not ours & {f"multitree.host.cli.{module}" for module in others}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_its_line_in_the_table(name):
    command = load_command(name)
    assert inspect.cleandoc(command.help).split("\n\n")[0] == COMMANDS[name][1]
    assert {"verbose", "quiet"} <= {option.name for option in command.params}


def test_without_a_command_the_help_is_printed(run):
    texts = [run.printed(line) for line in ("", "--help", "-q")]
    assert texts[0] == texts[1] == texts[2]
    assert all(f"  {name} " in texts[0] for name in COMMANDS)


def test_errors_with_a_status_of_their_own_are_classes():
    for name in process.STATUSES:
        assert issubclass(pkgutil.resolve_name(name), RuntimeError)


def test_a_runtime_error_without_a_status_is_raised():
    def fails():
        raise RecursionError("deep")

    with pytest.raises(RecursionError):
        process.run_command(fails)


def test_every_name_of_the_door_can_be_imported():
    assert all(getattr(multitree, name) for name in multitree.__all__)
    assert set(multitree.__all__) <= set(dir(multitree))
    with pytest.raises(AttributeError, match="no attribute 'all_reduce'"):
        _ = multitree.all_reduce


def test_doctor_says_what_is_damaged_and_empties_the_cache(run, monkeypatch, tmp_path):
    cache = tmp_path / "cache"
    (cache / "library-0123").mkdir(parents=True)
    (cache / "library-0123" / "network.so").write_bytes(b"x" * 1000)
    monkeypatch.setenv("MULTITREE_CACHE", str(cache))
    data = run.json("doctor")
    damaged = [{"name": "library-0123", "reason": "it has no SHA256SUMS"}]
    assert data["cache"] == {"path": str(cache), "size_bytes": 1000, "damaged": damaged}
    assert data["cleared_bytes"] is None
    assert "damaged  library-0123: it has no SHA256SUMS; it is made again" in run.printed("doctor")
    data = run.json("doctor --clear-cache")
    assert (data["cleared_bytes"], data["cache"]["size_bytes"]) == (1000, 0)
