"""What users' type checkers know of results: the type that went in."""

import pytest

from tests.programs import python
from tests.repository import ROOT

RIGHT = """
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

from multitree import Communicator, torus

Row = npt.NDArray[np.float32]
stacked: Row = np.zeros((4, 8), np.float32)
row: Row = np.zeros(8, np.float32)
with Communicator(torus(2, 2)) as comm:
    assert_type(comm.all_reduce(stacked).wait(), Row)
    assert_type(comm.all_reduce([row] * 4, op="avg").wait(), list[Row])
    assert_type(comm.broadcast((row,) * 4, root=0).wait(), list[Row])
    assert_type(comm.reduce(stacked, root=0).wait(timeout_seconds=5), Row)
    pieces = comm.reduce_scatter(stacked).wait()
    assert_type(pieces, list[Row])
    assert_type(comm.all_gather(pieces).wait(), Row)
"""
WRONG = """
import numpy as np

from multitree import Communicator, torus

with Communicator(torus(2, 2)) as comm:
    comm.all_reduce(np.zeros((4, 8))).wait().append(1)
    comm.all_reduce([1, 2, 3, 4])
    comm.all_gather(np.zeros((4, 8)))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of a user, with what mypy remembers of this package from one program to the next."""
    return tmp_path_factory.mktemp("user")


def checked(folder, text):
    """What mypy says of a user's program."""
    pytest.importorskip("mypy")
    program = folder / "program.py"
    program.write_text(text)
    # With a user's settings, not this project's, which leave out the types of PyTorch.
    settings = ["--strict", "--config-file=", "--follow-imports=silent"]
    found = {"folder": folder, "status": None, "MYPYPATH": str(ROOT / "src")}
    return python("-m", "mypy", *settings, program, **found).stdout


@pytest.mark.long
def test_results_have_the_types_of_what_went_in(folder):
    assert checked(folder, RIGHT).startswith("Success")


@pytest.mark.slow
def test_what_cannot_work_is_found_before_it_runs(folder):
    lines = [line for line in checked(folder, WRONG).splitlines() if ": error: " in line]
    assert [line.split(":")[1] for line in lines] == ["7", "8", "9"]


def test_the_right_program_runs(tmp_path):
    exec(compile(RIGHT, "program.py", "exec"), {})
