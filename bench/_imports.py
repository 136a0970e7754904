"""What Python files import, as their text says: nothing is run."""

import ast
import re
from collections.abc import Iterator

__all__ = ["DOOR", "homes", "imported", "imported_later"]

DOOR = "src/multitree/__init__.py"
# What is imported when it is called, as entry points are written.
_LATER = re.compile(r"multitree(\.\w+)+:\w+")


def imported(tree: ast.AST, *, at_top: bool = False) -> Iterator[str]:
    """Dotted names of all modules that a tree imports, and of all that it imports from them.

    Relative ones begin with a dot. Names from the door stand alone, since the door loads each when
    it is asked for. With `at_top` only what is imported when the module is loaded.
    """
    for node in getattr(tree, "body", ()) if at_top else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            if module != "multitree":
                yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imported_later(tree: ast.AST) -> list[str]:
    """Dotted names of what a tree imports by "module:name" when it is used."""
    texts = [str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [text.replace(":", ".") for text in texts if _LATER.fullmatch(text)]


def homes(door: ast.AST) -> dict[str, str]:
    """Dotted name, where it is defined, of each name that users import from a door."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(door)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("multitree.")
        for alias in node.names
    }
