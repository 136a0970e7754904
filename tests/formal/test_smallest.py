"""Every property holds for its smallest parameter set, and says something."""

import pytest

from tests.formal.mutants import ROOT
from tests.formal.properties import PROPERTIES
from tests.formal.run import check
from tests.formal.seeded import MUTANTS
from tests.formal.solve import missing


@pytest.mark.parametrize("name", PROPERTIES)
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


def test_each_property_has_a_seeded_fault():
    assert {mutant.property_name for mutant in MUTANTS} == set(PROPERTIES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_what_a_seeded_fault_replaces_occurs_once(mutant):
    assert (ROOT / mutant.path).read_text().count(mutant.old) == 1
