"""A bench's case comes back from its files as it was, or is refused by name."""

import json
import re

import pytest

from multitree import build, ring, save_schedule
from multitree.nic.driver.config import Config
from multitree.sim.cocotb.case import CASE_FILE, SCHEDULE_FILE, STALLS_VARIABLE, BenchCase, BenchTop

SCHEDULE = build(ring(4), "multitree")
TOP = BenchTop("top", ("../a.v", "b.v"), 4, ("bench_a",), ("bench_b",), ("one", "two"))
CASE = BenchCase(SCHEDULE, Config(num_ports=2), rank=3, num_elements=9, tops=(TOP,))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / CASE_FILE).write_text(CASE.text())
    save_schedule(SCHEDULE, tmp_path / SCHEDULE_FILE)
    return tmp_path


def test_a_case_comes_back_from_its_files(folder):
    found = BenchCase.load(folder, {})
    assert found.schedule.hash == SCHEDULE.hash
    assert (found.config, found.tops, found.rank) == (CASE.config, CASE.tops, 3)
    assert (found.shape, found.stalls) == ((4, 9), "light")


def test_a_variable_holds_in_place_of_the_files_stalls(folder):
    assert BenchCase.load(folder, {STALLS_VARIABLE: "heavy"}).stalls == "heavy"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 4}, "Rank must be in 0..3, not 4"),
        ({"rank": -1}, "Rank must be in 0..3, not -1"),
        ({"num_elements": 0}, "at least 1, not 0"),
        ({"stalls": "some"}, "one of none, light, heavy, not 'some'"),
        ({"schema": "other"}, "case.json: file must be a bench's case"),
        ({"tops": [{"top": 1}]}, "case.json: file must be a bench's case"),
        ({"config": {"num_ports": 99}}, "num_ports must be in"),
    ],
)
def test_what_a_case_cannot_be_is_named(folder, change, message):
    content = json.loads((folder / CASE_FILE).read_text()) | change
    (folder / CASE_FILE).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=re.escape(message)):
        BenchCase.load(folder, {})


def test_a_file_that_is_no_json_is_named(folder):
    (folder / CASE_FILE).write_text("{")
    with pytest.raises(ValueError, match=r"case\.json: file must be a bench's case"):
        BenchCase.load(folder, {})
