"""Every property holds for its smallest parameter set, and says something."""

import re
from operator import and_, or_

import pytest

from tests.formal.bench import Bench
from tests.formal.mutants import ROOT
from tests.formal.properties import PROPERTIES
from tests.formal.run import check, counts
from tests.formal.seeded.all import MUTANTS
from tests.formal.solve import missing, solve

TAKE_LONG = {
    "head_reader.order",
    "head_reader.window",
    "header_check.waves",
    "header_check.window",
    "fetcher.piped_waves",
    "fetcher.waves",
    "forwarding_reducer.writes",
    "sequencer.order",
    "switch.messages",
    "chunk_reader.flits",
    "issuer.progress",
    "issuer.reads",
}
"""Properties whose smallest parameter set takes 10 s and more."""


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.every_set
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] if n in TAKE_LONG else []) for n in PROPERTIES],
)
def test_the_property_holds_for_its_smallest_parameter_set_and_is_not_empty(name):
    if missing():
        pytest.skip(missing())
    claim = PROPERTIES[name]
    verdict, unreached = check(name, 0, quick=True)
    depth = claim.quick_depth or claim.depth
    assert (verdict.outcome, verdict.depth) == (("bounded" if depth else "proved"), depth)
    assert not unreached


def test_a_solver_out_of_its_time_has_decided_nothing():
    if missing():
        pytest.skip(missing())
    verdict, _ = check("link.session", 2, covers=False, limit_seconds=1)
    assert verdict.outcome == "undecided" and 1 <= verdict.seconds < 3


@pytest.mark.parametrize(("operator", "outcome"), [(or_, "proved"), (and_, "refuted")])
def test_what_is_constant_is_decided_without_a_search(operator, outcome):
    if missing():
        pytest.skip(missing())
    bench = Bench()
    free = bench.free("free")
    bench.check(operator(free, ~free))
    assert solve(bench.netlist(), depth=None, limit_seconds=10).outcome == outcome


def test_what_a_stand_in_leaves_free_is_an_input_of_the_netlist():
    claim = PROPERTIES["tracker.counts"]
    netlist = claim.bench(claim.sizes[0]).netlist()
    assert re.search(r"wire width \d+ input \d+ +\\anything\n", netlist)


def test_each_property_has_a_seeded_fault():
    assert {mutant.property_name for mutant in MUTANTS} == set(PROPERTIES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_what_a_seeded_fault_replaces_occurs_once(mutant):
    assert (ROOT / mutant.path).read_text().count(mutant.old) == 1


def test_only_what_holds_counts_as_proved_or_bounded():
    results = ("proved", "bounded 12", "bounded 40", "proved, not reached: full", "refuted 3")
    rows = [("name", "sizes", result, "1") for result in results]
    mutants = [("name", "fault", "caught"), ("name", "fault", "not caught")]
    found = counts(list(PROPERTIES.values()), MUTANTS, rows, mutants)
    assert found["properties"] == len(PROPERTIES) and found["seeded_faults"] == len(MUTANTS)
    assert (found["solved"], found["proved"], found["bounded"]) == (5, 1, 2)
    assert (found["least_bounded_cycles"], found["most_bounded_cycles"]) == (12, 40)
    assert (found["seeded"], found["caught"]) == (2, 1)
