"""Sizes of folders, files and functions, comments, circles of imports, paths.

``python bench/house.py`` counts what is in the repository; ``--paths`` also runs one all-reduce
on the rtl engine and counts the files whose functions it enters.
"""

import argparse
import ast
import json
import statistics
import sys
import threading
import tokenize
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import networkx
import numpy as np

from multitree import Communicator, Schedule, Topology, ring, torus
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import compile_table, table_writes
from multitree.topology.schedules.trees import both_phases, with_direct_links

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("topology", "hw", "nic", "sim", "host")
LONG_LINES = 40
Function = ast.FunctionDef | ast.AsyncFunctionDef
Tree = ast.Module | ast.ClassDef


def files(*folders: str) -> list[Path]:
    """The Python files under some folders of the repository."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[Function]:
    """All functions of a file."""
    yield from (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def body_lines(function: Function) -> int:
    """Lines of a function from its first statement on, after parameters and docstring."""
    has_text = ast.get_docstring(function) is not None and len(function.body) > 1
    return (function.end_lineno or 0) - function.body[has_text].lineno + 1


def public(tree: Tree) -> Iterator[Function | ast.ClassDef]:
    """Public functions, classes and methods."""
    for node in tree.body:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        if isinstance(node, kinds) and not node.name.startswith("_"):
            # Signatures of one function share the text of the last of them.
            is_overload = any(ast.unparse(d) == "overload" for d in node.decorator_list)
            yield from () if is_overload else (node,)
            if isinstance(node, ast.ClassDef):
                yield from public(node)


def num_comments(path: Path) -> int:
    """Lines with a comment."""
    with path.open("rb") as file:
        return sum(token.type == tokenize.COMMENT for token in tokenize.tokenize(file.readline))


def room_of(module: str) -> str:
    """The folder that a module is in; one at the top of a package stands for itself."""
    folder = module.rpartition(".")[0]
    return folder if folder.count(".") > 1 else module


def import_circles(paths: list[Path]) -> tuple[int, int]:
    """Circles of imports among modules, and among folders."""
    names = {".".join(("multitree", *p.relative_to(ROOT).with_suffix("").parts)): p for p in paths}
    modules, folders = networkx.DiGraph(), networkx.DiGraph()
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in names:
                modules.add_edge(name, node.module)
                if room_of(name) != room_of(node.module):
                    folders.add_edge(room_of(name), room_of(node.module))
    among_modules, among_folders = (
        sum(len(found) > 1 for found in networkx.strongly_connected_components(graph))
        for graph in (modules, folders)
    )
    return among_modules, among_folders


def counted() -> dict[str, Any]:
    """All counts that reading the source gives."""
    paths = files(*ROOMS)
    modules = [path for path in paths if path.name != "__init__.py"]
    trees = [ast.parse(path.read_text()) for path in paths]
    per_folder = [
        sum(p.parent == folder for p in modules) for folder in {p.parent for p in modules}
    ]
    lengths = [path.read_text().count("\n") for path in modules]
    of_functions = [(body_lines(f), f.name) for tree in trees for f in functions(tree)]
    elaborates = [lines for lines, name in of_functions if name == "elaborate"]
    others = [lines for lines, name in of_functions if name != "elaborate"]
    documented = [bool(ast.get_docstring(thing)) for tree in trees for thing in public(tree)]
    product, tests = sum(lengths), sum(p.read_text().count("\n") for p in files("tests"))
    circles = import_circles(modules)
    return {
        "modules": len(modules),
        "most_modules_in_a_folder": max(per_folder),
        "file_lines_median": statistics.median(lengths),
        "file_lines_max": max(lengths),
        "elaborate_lines_median": statistics.median(elaborates),
        "elaborate_lines_max": max(elaborates),
        "elaborates_over_40_lines": sum(lines > LONG_LINES for lines in elaborates),
        "other_functions_over_40_lines": sum(lines > LONG_LINES for lines in others),
        "functions": len(of_functions),
        "public_things": len(documented),
        "public_things_documented": sum(documented),
        "comments_per_100_lines": round(100 * sum(map(num_comments, modules)) / product, 2),
        "circles_of_modules": circles[0],
        "circles_of_folders": circles[1],
        "product_lines": product,
        "test_lines": tests,
        "test_lines_per_product_line": round(tests / product, 2),
    }


def entered(run: Any) -> list[str]:
    """Files of the rooms whose functions a call enters, in any thread."""
    found = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    known = {str(path): str(path.relative_to(ROOT)) for path in files(*ROOMS)}
    return sorted(
        known[real] for real in (str(Path(name).resolve()) for name in found) if real in known
    )


def all_reduce() -> None:
    """One all-reduce on the rtl engine."""
    with Communicator(torus(2, 2), engine="rtl") as communicator:
        communicator.all_reduce(np.ones((4, 100), np.float32)).wait()


def table_entries(topology: Topology) -> None:
    """Trees of two ranks become a schedule, rank 0's table, and the words of its rows."""
    step, tree, link = np.zeros(2, np.int32), np.arange(2, dtype=np.int32), np.arange(2)
    grown = with_direct_links(topology, step, tree, link.astype(np.int32))
    rows, routes = both_phases(topology, lambda _: grown)
    schedule = Schedule.from_rows(
        topology,
        algorithm="trees",
        collective="all_reduce",
        flow_offsets=np.arange(3),
        rows=rows,
        routes=routes,
    )
    table_writes(compile_table(schedule, 0, 64, Config()))


def main() -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paths", action="store_true", help="also files that are entered")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counts = counted()
    if options.paths:
        all_reduce()  # so that everything is compiled and imported
        counts["files_of_an_rtl_all_reduce"] = entered(all_reduce)
        counts["files_of_a_table_entry"] = entered(partial(table_entries, ring(2)))
    if options.json:
        print(json.dumps(counts, indent=2))
        return 0
    for name, value in counts.items():
        listed = isinstance(value, list)
        print(f"{name.replace('_', ' '):36}{len(value) if listed else value}")
        for line in value if listed else ():
            print(f"    {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
