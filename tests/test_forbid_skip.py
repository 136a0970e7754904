"""No skip goes unnoticed where it is forbidden; quick tests run a sample."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SKIPS = {
    "in a test": "def test_it():\n    pytest.skip('no tool')\n",
    "by a mark": "@pytest.mark.skip(reason='no tool')\ndef test_it():\n    pass\n",
    "in a fixture": "@pytest.fixture\ndef tool():\n    pytest.skip('no tool')\n"
    "def test_it(tool):\n    pass\n",
    "of a module": "pytest.importorskip('no_such_tool')\n",
}


MARKERS = "[pytest]\nmarkers =\n  slow\n  long\n  more_sets\n  every_set\n"


def outcome(folder, code, *, forbid, options=()):
    """Exit status of pytest on a module with that code, and what it printed."""
    (folder / "pytest.ini").write_text(MARKERS)
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "test_it.py").write_text("import pytest\n" + code)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            folder,
            *options,
        ],
        cwd=folder,
        env={**os.environ, "MULTITREE_FORBID_SKIP": "1" if forbid else "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("code", SKIPS.values(), ids=SKIPS)
def test_a_skip_is_a_failure_that_keeps_its_reason(code, tmp_path):
    status, printed = outcome(tmp_path, code, forbid=True)
    assert status in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert "nothing may be skipped here" in printed
    assert "no tool" in printed or "no_such_tool" in printed


@pytest.mark.slow
@pytest.mark.parametrize("code", SKIPS.values(), ids=SKIPS)
def test_without_the_setting_a_skip_is_a_skip(code, tmp_path):
    status, printed = outcome(tmp_path, code, forbid=False)
    assert status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "1 skipped" in printed


def test_a_test_that_passes_still_passes(tmp_path):
    status, _ = outcome(tmp_path, "def test_it():\n    pass\n", forbid=True)
    assert status == pytest.ExitCode.OK


MANY = """
@pytest.mark.parametrize("number", range(14))
def test_many(number):
    print("many", number)

@pytest.mark.every_set
@pytest.mark.parametrize("number", range(10))
def test_every(number):
    print("every", number)

SLOW = [pytest.param(n, marks=pytest.mark.slow) for n in range(5)]

@pytest.mark.parametrize("number", [*SLOW, 5, 6, 7, 8])
def test_two(number):
    print("two", number)
"""


def test_without_slow_tests_the_first_the_middle_and_the_last_set_are_run(tmp_path):
    _, printed = outcome(
        tmp_path,
        MANY,
        forbid=False,
        options=["-s", "-m", "not slow and not long and not more_sets"],
    )
    every = [f"every {number}" for number in range(10)]
    ran = re.findall(r"(?:many|every|two) \d+", printed)
    assert ran == ["many 0", "many 7", "many 13", *every, "two 5", "two 7", "two 8"]


def test_with_slow_tests_five_quick_sets_are_run_and_three_slow_ones(tmp_path):
    _, printed = outcome(tmp_path, MANY, forbid=False, options=["-s", "-m", "not long"])
    every = [f"every {number}" for number in range(10)]
    many = [f"many {number}" for number in (0, 3, 7, 10, 13)]
    two = [f"two {number}" for number in (0, 2, 4, 5, 6, 7, 8)]
    ran = re.findall(r"(?:many|every|two) \d+", printed)
    assert ran == [*many, *every, *two]


def test_each_set_is_quick_or_long_or_between(tmp_path):
    _, printed = outcome(tmp_path, MANY, forbid=False, options=["-s"])
    assert len(re.findall(r"(?:many|every|two) \d+", printed)) == 14 + 10 + 9
