"""What every test shares: MULTITREE_FORBID_SKIP=1 makes a skip a failure."""

import os
import signal

import pytest

FORBID_SKIP = os.environ.get("MULTITREE_FORBID_SKIP") == "1"

# What a shell in the background or nohup ignores would stay so, here and in what tests start.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler)


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
