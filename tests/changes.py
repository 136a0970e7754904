"""What changes reach: tests that import, start or read what has changed."""

import ast
import re
import subprocess
from collections import defaultdict
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

from tests.benches import bench_module

__all__ = ["Changes", "HistoryError"]

sources = bench_module("_sources")
DOOR = sources.DOOR
ROOMS = ("topology", "hw", "nic", "sim", "host")
STARTED, COMMANDS = "src/multitree/__main__.py", "host/cli/"
STARTS_COMMAND = re.compile(r'"-m", "multitree"|-m multitree\b')
DOTTED = re.compile(r"(?:multitree|tests)(?:\.\w+)+")


class HistoryError(Exception):
    """The commit to compare with is not known."""


class Changes:
    """Files that differ from the commit that last changed the file `mark`, and what they reach.

    Imports are read, not run. A text in a program stands for the files that it names by their last
    part, globs included; a file that is no Python belongs to all modules of its folder.
    """

    def __init__(self, root, mark):
        self._root = Path(root)
        self.commit = self._commit(mark)
        listed = self._git("diff", "--name-only", "--no-renames", self.commit)
        listed += self._git("ls-files", "--others", "--exclude-standard")
        self.files = frozenset(listed) - {mark}
        self._targets = {}

    def _git(self, *arguments):
        command = ["git", "-c", "core.quotePath=off", "-C", self._root, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, check=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = (getattr(error, "stderr", "") or str(error)).strip().split("\n")[0]
            raise HistoryError(f"git cannot read the history: {reason}") from None
        return done.stdout.splitlines()

    def _commit(self, mark):
        """The commit that last changed a file; of a shallow clone the first one is not believed."""
        found = self._git("log", "-1", "--format=%H", "--", mark)
        (shallow,) = self._git("rev-parse", "--git-path", "shallow")
        shallow = self._root / shallow
        if not found or (shallow.is_file() and found[0] in shallow.read_text().split()):
            raise HistoryError(f"the history does not reach the commit that last changed {mark}")
        return found[0]

    def reach(self, test):
        """True where something that a test file imports, starts or reads has changed."""
        if not self.files:
            return False
        start = str(Path(test).relative_to(self._root))
        # What tests/conftest.py imports chooses tests, and is nothing that they stand on.
        folders = [Path(start).parent, *Path(start).parent.parents][:-2]
        reached = self._closure({start, *(str(folder / "conftest.py") for folder in folders)})
        homes = {str(Path(file).parent) for file in reached}
        return any(file in reached or self._folder_of(file) in homes for file in self.files)

    def _closure(self, starts):
        reached, waiting = set(), list(starts)
        while waiting:
            file = waiting.pop()
            if file not in reached and (self._root / file).is_file():
                reached.add(file)
                waiting += self._targets_of(file)
        return reached

    def _folder_of(self, file):
        """Folder whose modules use a file that is no Python, the nearest one that has modules."""
        if file.endswith(".py") or file.split("/")[0] not in (*ROOMS, "tests", "bench", "examples"):
            return None
        folder = Path(file).parent
        while not any((self._root / folder).glob("*.py")) and folder != Path():
            folder = folder.parent
        return str(folder)

    def _targets_of(self, file):
        if file not in self._targets:
            self._targets[file] = self._read(file) if file.endswith(".py") else set()
        return self._targets[file]

    def _read(self, file):
        """Files that one names: by imports, by texts, and those of the packages on the way."""
        text = (self._root / file).read_text()
        starts = file.startswith(COMMANDS) or STARTS_COMMAND.search(text)
        found = set(self._commands) if starts else set()
        tree = ast.parse(text)
        for name in sources.imported(tree):
            found |= self._module(name, file)
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) in prose:
                    continue
                found |= self._named(node.value, file)
                # bench_module("auto") loads bench/auto.py.
                bench = f"bench/{node.value}.py"
                found |= {bench} if "bench_module" in text and bench in self._programs else set()
        return found

    def _module(self, name, file):
        """Files of a module by its dotted name, of the packages around it, or of a name's home."""
        first, *rest = name.split(".")
        if first == "multitree":
            door = len(rest) == 1 and rest[0] not in ROOMS
            place, parts = "", ([] if door else rest)
            if door and (home := self._doors.get(rest[0])):
                return self._module(home, file)
            if door or not rest:
                beside = f"src/multitree/{rest[0]}.py" if rest else DOOR
                return {beside if (self._root / beside).is_file() else DOOR}
        elif first == "tests":
            place, parts = "tests/", rest
        else:
            # Programs of a folder, such as bench, import each other by their names alone.
            beside = str(Path(file).parent / f"{first}.py")
            return {beside} if (self._root / beside).is_file() else set()
        found = set()
        for count in range(len(parts) + 1):
            path = place + "/".join(parts[:count])
            found |= {f"{path.rstrip('/')}/__init__.py", f"{path}.py"}
        return {path for path in found if (self._root / path).is_file()}

    def _named(self, text, file):
        """Files that a text names: modules, and others by the last part of their path."""
        found = set()
        for dotted in DOTTED.findall(text):
            found |= self._module(dotted, file)
        if file.split("/")[0] in ROOMS:
            return found
        for word in re.findall(r"[\w.*/-]+", text):
            last = word.rsplit("/", 1)[-1]
            if "*" in last and last.strip("*."):
                found.update(*(paths for name, paths in self._last.items() if fnmatch(name, last)))
            else:
                found |= self._last.get(last, set())
        return found

    @cached_property
    def _programs(self):
        listed = self._git("ls-files", "bench", "examples", "docs")
        return {file for file in listed if (self._root / file).is_file()}

    @cached_property
    def _commands(self):
        listed = self._git("ls-files", COMMANDS)
        return {STARTED, *(file for file in listed if file.endswith(".py"))}

    @cached_property
    def _last(self):
        """Programs and pages by the last part of their paths."""
        found = defaultdict(set)
        for file in self._programs | {"README.md", "Makefile", "pyproject.toml", "CHANGELOG.md"}:
            found[file.rsplit("/", 1)[-1]].add(file)
        return found

    @cached_property
    def _doors(self):
        """Home of each name that users import from the package itself."""
        return sources.homes(ast.parse((self._root / DOOR).read_text()))
