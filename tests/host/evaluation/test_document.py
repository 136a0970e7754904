"""The page on sweeps: its example, its table of keys, and its script."""

import re
import subprocess
import sys

import pytest

from multitree.host.evaluation.definition import _CHECKS, REQUIRED, read_grid
from multitree.host.evaluation.point import Point
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "sweep.md").read_text()
EXAMPLE = ROOT / "examples" / "sweep.yaml"


def test_the_page_shows_the_example_and_counts_its_points():
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
    assert EXAMPLE.read_text().endswith(shown)
    assert f"with {read_grid(EXAMPLE).num_points} points" in PAGE


def test_the_page_has_every_key_and_what_is_taken_without_it():
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| .* \| (.+) \|$", PAGE, re.M)
    keys = {key: default for names, default in rows for key in re.findall(r"`(\w+)`", names)}
    assert list(keys) == list(_CHECKS)
    assert [key for key, default in keys.items() if default == "must be there"] == list(REQUIRED)
    plain = Point("", "", 0, "")
    for key in set(keys) - set(REQUIRED):
        value = getattr(plain, key)
        words = {"None": "null", "False": "false"}
        said = f"`{value}`" if isinstance(value, str) else words.get(str(value)) or f"{value:g}"
        assert keys[key] == said


@pytest.mark.slow
def test_the_script_of_the_page_runs(tmp_path):
    (script,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\[\d+, \d+, \d+, \d+\] 0\n", done.stdout)
