"""The page on sweeps: its example, its table of keys, and its script."""

import re

import pytest

from multitree.host.evaluation.definition import _CHECKS, read_grid
from tests.programs import python
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "sweep.md").read_text()
EXAMPLE = ROOT / "examples" / "sweep.yaml"


def test_the_page_shows_the_example_and_counts_its_points():
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
    assert EXAMPLE.read_text().endswith(shown)
    assert f"with {read_grid(EXAMPLE).num_points} points" in PAGE


def test_the_page_has_every_key():
    keys = re.findall(r"^\| `(\w+)` \| .* \| .+ \| .* \|$", PAGE, re.M)
    assert keys == list(_CHECKS)


@pytest.mark.slow
def test_the_script_of_the_page_runs(tmp_path):
    (script,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    (tmp_path / "script.py").write_text(script)
    shown = python("script.py", folder=tmp_path).stdout
    assert re.fullmatch(r"\[\d+, \d+, \d+, \d+\] 0\n", shown)
