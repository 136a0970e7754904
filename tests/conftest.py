"""What every test shares: MULTITREE_FORBID_SKIP=1 makes a skip a failure.

A test of many parameter sets runs with the first, the middle and the last of them, of its slow ones
likewise: all others are marked `long` here, unless the test is marked `every_set`.
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


def sample(sets):
    """The first, the middle and the last of a test's parameter sets."""
    return [sets[n] for n in {0, len(sets) // 2, len(sets) - 1} if sets]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the parameter sets that are not in the samples of their test."""
    tests = defaultdict(list)
    for item in items:
        if not any(item.get_closest_marker(name) for name in ("long", "every_set")):
            slow = item.get_closest_marker("slow") is not None
            tests[item.path, getattr(item, "originalname", item.name), slow].append(item)
    for sets in tests.values():
        chosen = sample(sets)
        for item in sets:
            if item not in chosen:
                item.add_marker(pytest.mark.long)


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
