"""Sizes of folders, files and functions, docstrings, comments, imports, paths.

``python bench/house.py`` counts what is in the repository; ``--paths`` also counts the files whose
functions are entered by an all-reduce on the rtl engine, a warm one of the backend's tensors, a
comparison and a table.
"""

import ast
import contextlib
import io
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import _ranks
import networkx
import numpy as np
from _bench import ended, options
from _sources import Function, arrows, body_lines, comments, documentable, functions

from multitree import Communicator, Schedule, Topology, ring, torus
from multitree.host.cli.main import main as multitree
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import compile_table, table_writes
from multitree.topology.schedules.trees import both_phases, with_direct_links

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("topology", "hw", "nic", "sim", "host")
LONG_LINES, SHORT_FILE_LINES = 40, 80
# Only these are to need the language of the hardware.
WITH_AMARANTH = ("multitree.hw.", "multitree.nic.", "multitree.sim.emulator.")


def files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def docstring_lines(tree: ast.Module) -> int:
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | Function)]
    texts = [node.body[0] for node in nodes if ast.get_docstring(node) is not None]
    return sum((text.end_lineno or 0) - text.lineno + 1 for text in texts)


def room_of(module: str) -> str:
    """The folder that a module is in; one at the top of a package stands for itself."""
    folder = module.rpartition(".")[0]
    return folder if folder.count(".") > 1 else module


def num_circles(graph: networkx.DiGraph) -> int:
    return sum(len(found) > 1 for found in networkx.strongly_connected_components(graph))


def folders_of(graph: networkx.DiGraph) -> networkx.DiGraph:
    ends = ((room_of(one), room_of(other)) for one, other in graph.edges)
    return networkx.DiGraph((one, other) for one, other in ends if one != other)


def counted() -> dict[str, Any]:
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
    documented = [
        bool(ast.get_docstring(thing))
        for tree in trees
        for outer, thing in documentable(tree)
        if not outer.name.startswith("_") and not thing.name.startswith("_")
    ]
    product, tests, benches = (
        sum(path.read_text().count("\n") for path in files(*folders))
        for folders in (ROOMS, ["tests"], ["bench"])
    )
    num_comments = sum(len(comments(path.read_text())) for path in modules)
    graph = networkx.DiGraph(arrows(modules))
    at_top = networkx.DiGraph(arrows(modules, at_top=True))
    with_amaranth = networkx.ancestors(at_top, "amaranth")
    return {
        "modules": len(modules),
        "most_modules_in_a_folder": max(per_folder),
        "file_lines_median": statistics.median(lengths),
        "file_lines_max": max(lengths),
        f"files_under_{SHORT_FILE_LINES}_lines": sum(n < SHORT_FILE_LINES for n in lengths),
        "elaborate_lines_median": statistics.median(elaborates),
        "elaborate_lines_max": max(elaborates),
        "elaborates_over_40_lines": sum(lines > LONG_LINES for lines in elaborates),
        "other_functions_over_40_lines": sum(lines > LONG_LINES for lines in others),
        "functions": len(of_functions),
        "public_things": len(documented),
        "public_things_documented": sum(documented),
        "docstring_lines": sum(map(docstring_lines, trees)),
        "comments_per_100_lines": round(100 * num_comments / product, 2),
        "circles_of_modules": num_circles(graph),
        "circles_of_folders": num_circles(folders_of(graph)),
        "files_that_need_amaranth": len(with_amaranth),
        "files_that_need_amaranth_elsewhere": sorted(
            name for name in with_amaranth if not name.startswith(WITH_AMARANTH)
        ),
        "product_lines": product,
        "test_and_bench_lines": tests + benches,
        "test_lines_per_product_line": round(tests / product, 2),
    }


@contextlib.contextmanager
def recording() -> Iterator[set[str]]:
    """Files whose functions are entered meanwhile, also in threads that are started meanwhile."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def of_rooms(names: set[str]) -> list[str]:
    known = {str(path): str(path.relative_to(ROOT)) for path in files(*ROOMS)}
    real = {str(Path(name).resolve()) for name in names.copy()}
    return sorted(known[name] for name in real & known.keys())


def entered(run: Callable[[], Any]) -> list[str]:
    """Files of the rooms that a second call enters: the first one compiles and imports."""
    run()
    with recording() as found:
        run()
    return of_rooms(found)


def all_reduce() -> None:
    with Communicator(torus(2, 2), engine="rtl") as communicator:
        communicator.all_reduce(np.ones((4, 100), np.float32)).wait()


def warm_tensor(rank: int, num_ranks: int) -> list[str]:
    """Files that a rank enters for a tensor of a group that has had one like it."""
    import torch
    import torch.distributed as dist

    with recording() as found:
        group, tensor = dist.new_group(list(range(num_ranks))), torch.ones(5001)
        dist.all_reduce(tensor, group=group)
        found.clear()
        dist.all_reduce(tensor, group=group)
    return of_rooms(found)


def compare() -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        multitree(["compare", "torus:4x4", "--engine", "analytic", "--quiet"])


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
    about = "also files that are entered"
    given = options(__doc__, paths={"action": "store_true", "help": about})
    counts = counted()
    if given.paths:
        counts["files_of_an_rtl_all_reduce"] = entered(all_reduce)
        counts["files_of_a_warm_tensor"] = _ranks.run_ranks(warm_tensor, 2)[0]
        counts["files_of_compare"] = entered(compare)
        counts["files_of_a_table_entry"] = entered(partial(table_entries, ring(2)))
    said = []
    for name, value in counts.items():
        listed = isinstance(value, list)
        said.append(f"{name.replace('_', ' '):36}{len(value) if listed else value}")
        said += [f"    {line}" for line in (value if listed else ())]
    return ended(given, True, counts, *said)


if __name__ == "__main__":
    sys.exit(main())
