"""The wheel works alone: built, installed elsewhere, run from another folder."""

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
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
    """Run a command and return what it prints; what it complains about goes into the failure."""
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_five_rooms_as_a_real_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    wanted = {"multitree/__init__.py", "multitree/py.typed", "multitree/sim/emulator/harness.cpp"}
    for room in ("topology", "hw", "nic", "sim", "host"):
        files = [p for ending in ("py", "cpp", "h") for p in (ROOT / room).rglob(f"*.{ending}")]
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
