"""Recipes of CONTRIBUTING.md, applied as they stand to a copy of the files."""

import filecmp
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.programs import python
from tests.repository import ROOT, listed_files

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"^`([\w./-]+)`", re.M)
CACHES = {".pytest_cache", ".ruff_cache"}
MOST_FILES = 4


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S).group(1)


def steps(title):
    """Kind and content of each block of a recipe, and the file that was named last before it."""
    text = section(title)
    for block in BLOCK.finditer(text):
        named = FILE.findall(text, 0, block.start())
        yield block[1], block[2], named[-1]


def patched(text, difference):
    """A text with the lines of a difference that begin with + at the one place where others fit."""
    lines = difference.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] == " ")
    # A last line of the context may be only the beginning of one.
    before, after = before.rstrip("\n"), "".join(line[1:] for line in lines).rstrip("\n")
    assert text.count(before) == 1, before
    return text.replace(before, after)


@pytest.fixture
def copy(tmp_path):
    """A folder with all files of the repository, and links in place of the packages'."""
    for path in listed_files():
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for room in ("topology", "hw", "nic", "sim", "host"):
        (tmp_path / "src" / "multitree" / room).symlink_to(f"../../{room}")
    return tmp_path


def changed(copy):
    """Files of the copy that are new or differ, but for pages of `view` and caches."""
    found = set()
    for path in filter(Path.is_file, copy.rglob("*")):
        place = path.relative_to(copy)
        original = ROOT / place
        passing = place.parts[0] in CACHES or path.suffix == ".html"
        if not passing and not (original.exists() and filecmp.cmp(original, path, shallow=False)):
            found.add(str(place))
    return found


@pytest.mark.slow
@pytest.mark.every_set
@pytest.mark.parametrize("title", ["An algorithm", "A family"])
def test_a_recipe_adds_what_it_says_in_at_most_four_files(title, copy, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(copy / "src"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for kind, content, named in steps(title):
        path = copy / named
        if kind == "python":
            assert not path.exists(), named
            path.write_text(content)
        elif kind == "diff":
            path.write_text(patched(path.read_text(), content))
        else:
            commands = content.splitlines()
    for command in commands:
        program, *arguments = shlex.split(command)
        module = ["-m", "multitree"] if program == "multitree" else []
        python(*module, *arguments, folder=copy)
    named = set(FILE.findall(section(title).partition("\nThen:\n")[0]))
    assert changed(copy) == named and len(named) <= MOST_FILES
