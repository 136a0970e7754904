"""What every test shares: MULTITREE_FORBID_SKIP=1 makes a skip a failure."""

import os

import pytest

FORBID_SKIP = os.environ.get("MULTITREE_FORBID_SKIP") == "1"


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
