"""The documents: every link leads somewhere, and the README shows what is printed."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from docs import tables

import multitree
from multitree.host.cli.main import main
from tests.emulation import needs_rtl
from tests.programs import load_script, python
from tests.repository import ROOT, listed_files

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
pytestmark = pytest.mark.every_set

PAGES = listed_files("*.md")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def blocks(kind):
    """Contents of the README's fenced blocks of one kind."""
    return [text for name, text in BLOCK.findall(README) if name == kind]


def anchors(path):
    """Names that links may have behind the path of a page: its headings, as GitHub names them."""
    text = BLOCK.sub("", path.read_text())
    plain = (re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", head) for head in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page):
    lost = []
    for link in LINK.findall(BLOCK.sub("", page.read_text())):
        if re.match(r"https?:|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target) if target else page
        known = path.exists() and (not anchor or anchor in anchors(path))
        lost += [] if known else [link]
    assert not lost


ROOMS = ("topology", "hw", "nic", "sim", "host")
PATH = re.compile(rf"(?<![\w/.-])(?:{'|'.join(ROOMS)}|tests|bench|docs|examples)/[\w/.]+\.[a-z]+\b")
DOTTED = re.compile(rf"`(?:multitree\.)?((?:{'|'.join(ROOMS)})\.[a-z_]+)\b")
# What those who follow a document or an example make themselves, and formats of files.
MADE = re.compile(r"nic/(multitree|card)_|bench/NAME\.py|sim\.py$|.*/(test_)?(star|wheel)\.py$")
FORMATS = {"topology.v1", "topology.schema"}


def test_every_file_and_module_that_a_text_names_is_there():
    """In documents and in the product; tests may name files that they make."""
    known, lost = {str(path.relative_to(ROOT)) for path in listed_files()}, []
    known |= {str(parent) for name in known for parent in Path(name).parents}
    texts = [*PAGES, *listed_files("docs/*.svg", "docs/*.toml", "bench/*.toml", "Makefile")]
    texts += listed_files(*(f"{room}/*" for room in (*ROOMS, "bench", "examples")))
    for path in texts:
        text = path.read_bytes().decode(errors="replace")
        found = {each for each in PATH.findall(text) if each not in known}
        for name in set(DOTTED.findall(text)) - FORMATS:
            folder = name.replace(".", "/")
            found |= set() if known & {folder, f"{folder}.py"} else {name}
        found = sorted(name for name in found if not MADE.match(name))
        lost += [f"{path.relative_to(ROOT)}: {name}" for name in found]
    assert not lost


@pytest.mark.long
def test_the_site_is_built_without_a_warning(tmp_path):
    """With the docstrings of all that `multitree` exports."""
    pytest.importorskip("sphinx", reason="the extra 'docs' is not installed")
    pytest.importorskip("torch", reason="PyTorch is not installed: a page documents its backend")
    found = python("-m", "sphinx", "-q", "-W", "--keep-going", ROOT / "docs", tmp_path)
    assert found.stderr == ""
    page = (tmp_path / "reference" / "python.html").read_text()
    assert [name for name in multitree.__all__ if f'id="multitree.{name}"' not in page] == []


def test_the_tables_of_the_reference_are_those_of_the_registries():
    for path, text in tables.pages().items():
        assert path.read_text() == text, "python docs/tables.py writes it"


def test_the_readme_is_short():
    assert README.count("\n") < 150


def test_the_picture_is_of_todays_schedule():
    trees = load_script(ROOT / "docs" / "trees.py")
    assert trees.FILE.read_text() == trees.svg(), "python docs/trees.py draws it"
    assert "240 messages take four steps" in README
    assert sum(map(int, re.findall(r"(\d+) messages on", trees.svg()))) == 240


def with_output(text, printed):
    """The README with the lines that the demo prints now: as many, from the same first words on."""
    (shown,) = (each for name, each in BLOCK.findall(text) if name == "text")
    start = printed.index(" ".join(shown.split()[:3]))
    return text.replace(shown, "".join(printed[start:].splitlines(True)[: shown.count("\n")]))


def test_what_the_demo_prints_is_written_and_the_rest_kept():
    text = "a\n```text\nAll of it:\n\n ring 12\n```\nb\n"
    printed = "Compiling\nAll of it:\n\n ring 345\nmore\n"
    assert with_output(text, printed) == text.replace("12", "345")


@pytest.mark.long
@needs_rtl
def test_the_demo_prints_what_the_readme_shows(capsys):
    assert main(["demo"]) == 0
    (shown,) = blocks("text")
    assert shown in capsys.readouterr().out


@pytest.mark.slow
def test_the_commands_that_need_no_compiler_run(capsys):
    commands = re.findall(r"^    multitree (.+)$", README, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        assert main(shlex.split(command, comments=True)) == 0
    assert Path("build/multitree_nic.v").is_file()
    assert capsys.readouterr().out


@needs_rtl
def test_the_python_example_runs(capsys):
    (example,) = blocks("python")
    exec(compile(example, "README.md", "exec"), {})
    assert "schedule" in capsys.readouterr().out


def test_every_target_of_make_that_the_readme_names_is_there():
    targets = set(re.findall(r"(?:^    |`)make ([a-z-]+)", README, re.MULTILINE))
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets and targets <= made


def write():
    """Write what the demo prints now."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        main(["demo"])
    (ROOT / "README.md").write_text(with_output(README, printed.getvalue()))


if __name__ == "__main__":
    write()
