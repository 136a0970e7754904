"""What tests cost in CPU seconds, against what their marks allow."""

import resource
import time
from collections import Counter

from multitree.sim.native_build import cache_folder
from tests.tiers import function_of, marks

__all__ = ["Costs", "summary"]

# Of one test without a mark, and of all sets of a function that is not dear.
TEST_SECONDS, FUNCTION_SECONDS = 3, 10
# A busy or an old machine is slower, but not by so much.
TOLERANCE = 4
# Here tests find what other tests have compiled; a test may set another folder for itself.
CACHE = cache_folder()
PROPERTY, SHOWN = "cpu_seconds", 40


class Costs:
    """CPU seconds of tests and of what they started, and those of all sets of each function."""

    def __init__(self):
        self._begun, self._of_function = (0.0, 0.0), Counter()

    def begin(self):
        """A test begins, with its fixtures."""
        self._begun = _cpu_seconds(), time.time()

    def of(self, item, report):
        """Note in the report what a test has cost that ends; why its marks are wrong, or None."""
        cpu_seconds, began = self._begun
        used = _cpu_seconds() - cpu_seconds
        report.user_properties.append((PROPERTY, used))
        if marks(item, "long") or _something_compiled(began):
            return None
        self._of_function[function_of(item)] += used
        whole = self._of_function[function_of(item)]
        if used > TOLERANCE * TEST_SECONDS and not marks(item, "slow"):
            return f"{used:.1f} CPU s: a test above {TEST_SECONDS} must be marked slow"
        if whole > TOLERANCE * FUNCTION_SECONDS and not marks(item, "dear"):
            return f"{whole:.1f} CPU s in all sets: above {FUNCTION_SECONDS} mark them dear"
        return None


def summary(reports):
    """Lines for people: CPU seconds in all, and of the functions that took the most."""
    spent, count = Counter(), Counter()
    for report in reports:
        seconds = dict(report.user_properties).get(PROPERTY)
        if report.when == "call" and seconds is not None:
            spent[function_of(report)] += seconds
            count[function_of(report)] += 1
    yield f"{sum(spent.values()):.0f} CPU seconds in {sum(count.values())} tests; the dearest:"
    for function, seconds in spent.most_common(SHOWN):
        yield f"{seconds:8.1f} in {count[function]:3} of {function}"


def _cpu_seconds():
    """Of this process and of the children that it has waited for."""
    used = (resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _something_compiled(began):
    """True where a test, here or beside, has compiled since: the first one pays for all others."""
    return CACHE.is_dir() and any(
        entry.stat().st_mtime >= began - 1 for entry in CACHE.iterdir() if entry.is_dir()
    )
