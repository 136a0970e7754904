"""Tests that could notice a change of a module, the nearest first."""

import ast
import re
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["tests_of"]

LATER = r"multitree(\.\w+)+:\w+"


def tests_of(root: Path, module: str) -> list[str]:
    """Test files that import a module of a repository, those that may notice a change soon first.

    First those of its own room; of these the one named after the module, then those of its
    sub-room, those that share words of its name, and the fewest imports away; files that tests
    share are none. Of equals the one that imports the least is first.
    """
    folder, stem = Path(module).parent, Path(module).stem
    found = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        test = str(path.relative_to(root))
        distances = _distances(root, test)
        if module in distances:
            named = path.stem == f"test_{stem}"
            alike = len({*stem.split("_")} & {*path.stem.split("_")})
            near = (-alike, distances[module], len(distances))
            of_tests = path.parent.relative_to(root / "tests")
            place = (of_tests.parts[:1] != folder.parts[:1], not named, of_tests != folder)
            found.append((*place, *near, test))
    return [test for *_, test in sorted(found)]


@cache
def _distances(root: Path, start: str) -> dict[str, int]:
    """Every file that one imports, and how many files of rooms lie on the way, itself one."""
    distances, waiting = {start: 0}, deque([start])
    while waiting:
        module = waiting.popleft()
        for target in _imports(root, module):
            distance = distances[module] + (not target.startswith("tests"))
            if distance < distances.get(target, distance + 1):
                distances[target] = distance
                # A file that tests share is as near as what imports it: look at it first.
                (waiting.appendleft if target.startswith("tests") else waiting.append)(target)
    return distances


@cache
def _imports(root: Path, module: str) -> tuple[str, ...]:
    names = dict.fromkeys(_names(ast.parse((root / module).read_text())))
    paths = (name.removeprefix("multitree.").replace(".", "/") + ".py" for name in names)
    return tuple(path for path in paths if (root / path).is_file())


def _names(tree: ast.Module) -> Iterator[str]:
    """Modules that a file imports, by their dotted names; members of modules match no file.

    What "module:function" names, as entry points do, is imported when it is called.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and re.fullmatch(LATER, str(node.value)):
            yield str(node.value).partition(":")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "multitree":
                yield from _behind_the_door(node)
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _behind_the_door(node: ast.ImportFrom) -> Iterator[str]:
    """Homes of names that are imported from the package itself."""
    door = ast.parse(Path(__file__).parents[1].joinpath("src/multitree/__init__.py").read_text())
    wanted = {alias.name for alias in node.names}
    for each in ast.walk(door):
        if isinstance(each, ast.ImportFrom) and wanted & {alias.name for alias in each.names}:
            yield each.module or ""
