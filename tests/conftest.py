"""What every test shares: MULTITREE_FORBID_SKIP=1 makes a skip a failure.

`make test` runs a test of many parameter sets with the first, the middle and the last of them,
`make test-all` with two more between: these are marked `more_sets` here, and what is left is marked
`long`, unless the test is marked `every_set`. Of a test's slow sets no more than three are run.
"""

import os
import signal
from collections import defaultdict

import pytest

FORBID_SKIP = os.environ.get("MULTITREE_FORBID_SKIP") == "1"

# What a shell in the background or nohup ignores would stay so, here and in what tests start.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler)


FEW_SETS, MORE_SETS = 3, 5


def sample(sets, most):
    """At most so many of a test's parameter sets: the first, the last, and some between."""
    count = len(sets)
    return [sets[n] for n in {min(n * count // (most - 1), count - 1) for n in range(most)} if sets]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the parameter sets that are not in the samples of their test."""
    tests = defaultdict(list)
    for item in items:
        if not any(item.get_closest_marker(name) for name in ("long", "every_set")):
            slow = item.get_closest_marker("slow") is not None
            tests[item.path, getattr(item, "originalname", item.name), slow].append(item)
    for (*_, slow), sets in tests.items():
        few = sample(sets, FEW_SETS)
        more = few if slow else sample(sets, MORE_SETS)
        for item in sets:
            if item not in few:
                item.add_marker(pytest.mark.more_sets if item in more else pytest.mark.long)


@pytest.fixture(autouse=True)
def _signals_stay():
    """Leave signals as they were: a program's module, imported, lets an interrupt end the process.

    Where it does, a later test that interrupts itself would end all tests without a word.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _forbid(report):
    """Turn a skipped report into a failed one that keeps the reason (an xfail stays)."""
    if FORBID_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: nothing may be skipped here, but: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Forbid a skip inside a test or fixture."""
    return _forbid((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """Forbid a skip of a whole module."""
    return _forbid((yield))
