"""All seeded faults, at least one for each property, in the properties' order."""

from operator import attrgetter

from tests.formal.mutants import listed
from tests.formal.seeded import control, forwarding, hw, path, shared

__all__ = ["MUTANTS"]

_LISTS = (control, forwarding, hw, path, shared)
MUTANTS = sorted(
    (fault for module in _LISTS for fault in listed(module.FAULTS)), key=attrgetter("property_name")
)
