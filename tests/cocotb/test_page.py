"""The example of the page on cocotb, run as it stands there."""

import re
import subprocess
import sys

import pytest

from multitree.sim.cocotb.simulators import SIMULATORS, missing
from tests.repository import ROOT

PAGE = ROOT / "docs" / "reference" / "cocotb.md"


@pytest.mark.slow
def test_the_bench_of_the_page_passes_and_says_what_it_ran(tmp_path):
    if all(map(missing, SIMULATORS)):
        pytest.skip("no simulator is installed")
    blocks = re.findall(r"^`(\w+\.py)`.*?\n```python\n(.*?)```", PAGE.read_text(), re.M | re.S)
    assert [name for name, _ in blocks] == ["bench_interface.py", "run.py"]
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    command = [sys.executable, "run.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    lines = [line for line in done.stdout.splitlines() if line.endswith("  passed")]
    assert len(lines) == 5
