"""Tests that could notice a change of a module, the nearest first."""

import ast
from collections import deque
from functools import cache
from pathlib import Path

from _sources import DOOR, homes, imported, imported_later

__all__ = ["tests_of"]


def tests_of(root: Path, module: str) -> list[str]:
    """Test files that import a module of a repository, those that may notice a change soon first.

    First those of its own room; of these the one named after the module, then those of its
    sub-room, those that share words of its name, and the fewest imports away; files that tests
    share are none. Of equals the one that imports the least is first.
    """
    folder, stem = Path(module).parent, Path(module).stem
    if not module.endswith(".py"):
        # C++, which this file of its folder compiles.
        module = str(folder / "library.py")
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
    """Files of the repository that one imports, also when it is used or through the door."""
    tree = ast.parse((root / module).read_text())
    names = {*imported(tree), *imported_later(tree)}
    names |= {home for name, home in _behind_the_door(root).items() if f"multitree.{name}" in names}
    # Of a member of a module the module is the file.
    names |= {name.rpartition(".")[0] for name in names}
    paths = (name.removeprefix("multitree.").replace(".", "/") + ".py" for name in names)
    return tuple(path for path in paths if (root / path).is_file())


@cache
def _behind_the_door(root: Path) -> dict[str, str]:
    return homes(ast.parse((root / DOOR).read_text()))
