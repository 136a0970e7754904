"""What Python files import and define, as their text says: nothing is run."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

__all__ = ["DOOR", "Function", "arrows", "body_lines", "comments", "documentable", "dotted"]
__all__ += ["functions", "homes", "imported", "imported_later"]

ROOT = Path(__file__).resolve().parents[1]
DOOR = "src/multitree/__init__.py"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Named = Function | ast.ClassDef
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


def dotted(path: Path) -> str:
    """Name of one of our modules, from its path."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("multitree", *(parts if parts[-1] != "__init__" else parts[:-1])))


def arrows(paths: list[Path], *, at_top: bool = False) -> Iterator[tuple[str, str]]:
    """Each of some modules with each that it imports of these and of Amaranth."""
    names = {dotted(path): path for path in paths}
    for name, path in names.items():
        found = {*imported(ast.parse(path.read_text()), at_top=at_top)}
        found |= {target.split(".")[0] for target in found}
        yield from ((name, target) for target in found & {*names, "amaranth"} - {name})


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def body_lines(function: Function) -> int:
    """Lines of a function from its first statement on, after parameters and docstring."""
    has_text = ast.get_docstring(function) is not None and len(function.body) > 1
    return (function.end_lineno or 0) - function.body[has_text].lineno + 1


def documentable(
    parent: ast.Module | ast.ClassDef, outer: Named | None = None
) -> Iterator[tuple[Named, Named]]:
    """Functions and classes of a module, and their members, each behind the outermost one."""
    for node in parent.body:
        # Signatures of one function share the text of the last of them.
        if isinstance(node, Named) and "overload" not in map(ast.unparse, node.decorator_list):
            yield outer or node, node
        if isinstance(node, ast.ClassDef):
            yield from documentable(node, outer or node)


def comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]
