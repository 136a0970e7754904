"""No block without a property, or a reason that is true."""

import ast
import re

import pytest

from tests.benches import bench_module
from tests.components import COMPONENTS
from tests.formal.inventory import (
    ARITHMETIC,
    CLOCKS,
    REASONS,
    REGISTERED,
    WIRING,
    class_of,
    covered,
)
from tests.formal.mutants import ROOT
from tests.formal.properties import PROPERTIES
from tests.formal.report import blocks, claimed, sizes_of
from tests.formal.seeded.all import MUTANTS

INSIDE = {"Tables": "Interface", "SharedCore": "Interface", "Core": "Interface"}
"""Blocks that are tested as part of the only one that has them."""


def attributes(node):
    return [n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)]


def test_every_block_has_a_property_that_catches_a_fault_in_it_or_a_reason_and_not_both():
    with_property = {component for component, names in covered().items() if names}
    assert with_property | set(REASONS) == set(COMPONENTS)
    assert not with_property & set(REASONS)


def test_what_covers_a_block_is_a_property():
    assert {name for names in covered().values() for name in names} <= set(PROPERTIES)


@pytest.mark.parametrize("component", REASONS)
def test_a_block_without_a_property_is_what_its_reason_says(component):
    reason, used = REASONS[component], attributes(class_of(component))
    assert "FSM" not in used
    if reason.kind != CLOCKS:
        assert reason.kind in (WIRING, REGISTERED, ARITHMETIC)
        assert ("sync" in used) == (reason.kind != WIRING)


def text_of(path):
    """A test and the benches of `tests` that it imports."""
    text = (ROOT / path).read_text()
    names = {*bench_module("_sources").imported(ast.parse(text))}
    modules = [name.split(".") for name in sorted(names) if name.startswith("tests.")]
    benches = [ROOT.joinpath(*module).with_suffix(".py") for module in modules]
    return text + "".join(bench.read_text() for bench in benches if bench.exists())


@pytest.mark.parametrize("component", REASONS)
def test_the_test_that_a_reason_names_builds_the_block(component):
    name = component.split(".")[-1]
    built = INSIDE.get(name, name)
    # By its name, or as the kind that a bench is told to build.
    assert re.search(rf"\b{built}\(|\bkind={built}\b", text_of(REASONS[component].test))


def rows(text):
    """Cells of a table's rows."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in lines[2:]]


def test_the_page_of_results_lists_every_block_property_parameter_set_and_seeded_fault():
    page = (ROOT / "docs" / "formal.md").read_text()
    assert blocks() in page and claimed(PROPERTIES.values()) in page
    _, results, seeded = re.split(r"\n## (?:Results|Seeded faults)\n", page)
    assert [row[:2] for row in rows(results)] == [
        (claim.name, sizes_of(claim, index))
        for claim in PROPERTIES.values()
        for index in range(len(claim.sizes))
    ]
    assert rows(seeded) == [(m.property_name, m.fault, "caught") for m in MUTANTS]
