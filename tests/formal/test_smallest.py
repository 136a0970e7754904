"""Every property holds for its smallest parameter set, and says something."""

import pytest

from tests.formal.properties import PROPERTIES
from tests.formal.run import check
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
