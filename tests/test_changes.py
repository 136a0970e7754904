"""A test is reached by a change of what it imports, starts or reads."""

import pytest

from tests.changes import Changes, HistoryError
from tests.programs import start

FILES = {
    "tests/rotation": "0\n",
    "tests/nic/conftest.py": "import tests.helpers\n",
    "tests/nic/test_rows.py": "from multitree.nic import rows\nimport numpy\n",
    "tests/test_door.py": "from multitree import Schedule\n",
    "tests/test_start.py": 'RUN = ["-m", "multitree"]\n',
    "tests/test_bench.py": '"""Beside bench/other.py here."""\nRUN = ROOT / "bench" / "speed.py"\n',
    "tests/test_module.py": 'module = bench_module("speed")\n',
    "tests/test_pages.py": 'PAGES = DOCS.glob("*.md")\n',
    "src/multitree/__init__.py": "from multitree.topology.schedule import Schedule\n",
    "src/multitree/__main__.py": "from multitree.host.cli.main import main\n",
    "nic/rows.py": "from multitree.topology import links\n",
    "host/cli/main.py": 'COMMANDS = {"view": "multitree.host.viewer.show"}\n',
    "bench/speed.py": "import _common\n",
}
EMPTY = """
README.md tests/conftest.py tests/helpers.py docs/page.md bench/_common.py bench/other.py
nic/__init__.py nic/harness.cpp nic/page/player.js nic/other.py host/__init__.py
host/cli/__init__.py host/cli/view.py host/viewer.py topology/__init__.py topology/links.py
topology/schedule.py topology/data.csv
"""
FILES |= dict.fromkeys(EMPTY.split(), "")
# What each file reaches: the names of tests.
REACHED = {
    "README.md": "pages",
    "tests/conftest.py": "",
    "tests/nic/conftest.py": "rows",
    "tests/helpers.py": "rows",
    "tests/test_door.py": "door",
    "src/multitree/__init__.py": "",
    "src/multitree/__main__.py": "start",
    "nic/__init__.py": "rows",
    "nic/rows.py": "rows",
    "nic/harness.cpp": "rows",
    "nic/page/player.js": "rows",
    "nic/other.py": "",
    "topology/links.py": "rows",
    "topology/schedule.py": "door",
    "topology/data.csv": "rows door",
    "host/cli/view.py": "start",
    "host/viewer.py": "start",
    "bench/speed.py": "bench module",
    "bench/_common.py": "bench module",
    "bench/other.py": "",
    "docs/page.md": "pages",
    "tests/rotation": "",
}


def git(folder, *words):
    settings = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    return start("git", "-C", folder, *settings, *words).stdout.strip()


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "--allow-empty", "--message", "change")
    return git(folder, "rev-parse", "HEAD")


def made(folder):
    """A repository whose number in tests/rotation has just been raised."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder.parent, "init", "-q", str(folder))
    commit(folder)
    (folder / "tests/rotation").write_text("1\n")
    commit(folder)
    return folder


@pytest.fixture
def repository(tmp_path):
    return made(tmp_path / "repository")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One that every test leaves as it was."""
    return made(tmp_path_factory.mktemp("shared") / "repository")


def reached(folder):
    """Names of the tests that changes since then reach."""
    changes = Changes(folder, "tests/rotation")
    tests = sorted((folder / "tests").rglob("test_*.py"))
    return {test.stem.removeprefix("test_") for test in tests if changes.reach(test)}


@pytest.mark.every_set
@pytest.mark.parametrize("name", REACHED)
def test_a_change_reaches_what_imports_starts_or_reads_the_file(name, shared):
    assert reached(shared) == set()
    (shared / name).write_text(FILES[name] + "\n")
    try:
        assert reached(shared) == {*REACHED[name].split()}
    finally:
        git(shared, "checkout", "-q", name)


def test_changes_count_from_the_commit_that_raised_the_number_committed_or_not(repository):
    raised = git(repository, "rev-parse", "HEAD")
    (repository / "nic/rows.py").write_text("")
    commit(repository)
    (repository / "topology/schedule.py").unlink()
    (repository / "docs/new.md").write_text("")
    changes = Changes(repository, "tests/rotation")
    assert changes.commit == raised
    assert changes.files == {"nic/rows.py", "topology/schedule.py", "docs/new.md"}
    assert reached(repository) >= {"rows"}
    (repository / "tests/rotation").write_text("2\n")
    commit(repository)
    assert reached(repository) == set()


def test_where_the_history_is_cut_off_or_missing_that_is_said(repository, tmp_path):
    (repository / "nic/rows.py").write_text("")
    commit(repository)
    source = f"file://{repository}"
    for depth in "123":
        git(tmp_path, "clone", "-q", "--depth", depth, source, str(tmp_path / depth))
    for shallow in "12":
        with pytest.raises(HistoryError, match="history does not reach"):
            Changes(tmp_path / shallow, "tests/rotation")
    assert Changes(tmp_path / "3", "tests/rotation").files == {"nic/rows.py"}
    (tmp_path / "none").mkdir()
    with pytest.raises(HistoryError, match="git cannot read the history"):
        Changes(tmp_path / "none", "tests/rotation")
