"""What every test shares: which ones run, what they may cost, and no skips.

- no mark: at most 3 CPU seconds. `make test` runs three of a test's parameter sets (the first, one
  between, the last), or all where each is a rule of its own: `every_set`.
- `slow`: more than that. Not in `make test`; `make test-ci` and `.ci/run` (`--ci`) run all sets.
- `dear`, slow or not: a function of more than 10 CPU seconds in all sets. `--ci` runs one set, and
  in one of four quarters all; and all where a file that the test imports, starts or reads has
  changed since the last commit that changed `tests/rotation`.
- `long`: more than 15 CPU seconds in one set, beside others that show the same in small. `--ci`
  runs it in its quarter only, `make test` never.

The quarter is the number in `tests/rotation` modulo 4. The last commit of each piece of work raises
the number by one, so that four pieces of work run everything. MULTITREE_QUARTER=2 takes another
quarter, MULTITREE_CI=all everything. A test that costs four times what its marks allow fails, and
with MULTITREE_FORBID_SKIP=1 a skip does.
"""

import os
import signal
from pathlib import Path

import pytest

from tests.changes import Changes, HistoryError
from tests.costs import Costs, summary
from tests.tiers import QUARTERS, ROTATION, marks, of_ci, quarter, sampled

FORBID_SKIP = os.environ.get("MULTITREE_FORBID_SKIP") == "1"
ROOT = Path(__file__).resolve().parents[1]

# What a shell in the background or nohup ignores would stay so, here and in what tests start.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler)


def pytest_addoption(parser):
    group = parser.getgroup("multitree")
    group.addoption("--sets", type=int, metavar="N", help="at most N parameter sets of each test")
    group.addoption("--ci", action="store_true", help="what continuous integration runs")


def pytest_configure(config):
    """Read the quarter and the history once."""
    config.quarter = config.changes = None
    if config.getoption("--ci") and os.environ.get("MULTITREE_CI") != "all":
        config.quarter = quarter()
        try:
            config.changes = Changes(ROOT, str(ROTATION.relative_to(ROOT)))
        except HistoryError as error:
            config.changes_unknown = str(error)


def pytest_report_header(config):
    """The quarter, and what is known of changes."""
    if config.quarter is None:
        return "quarter: all" if config.getoption("--ci") else None
    if config.changes is None:
        known = f"{config.changes_unknown}, so that of the dear tests only the quarter runs whole"
    else:
        known = f"{len(config.changes.files)} files changed since {config.changes.commit[:10]}"
    return f"quarter: {config.quarter} of 0 to {QUARTERS - 1}; {known}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if marks(item, "long"):
            item.add_marker("slow")
    kept, most = list(items), config.getoption("--sets")
    if config.quarter is not None:
        reach = config.changes.reach if config.changes else lambda path: False
        kept = of_ci(kept, config.quarter, reach)
    if most is not None:
        kept = sampled(kept, most)
    chosen = {*kept}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


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


COSTS = Costs()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol():
    """Look at the processor's clock."""
    COSTS.begin()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Forbid a skip inside a test or fixture, and a cost above that of the test's marks."""
    report = _forbid((yield))
    if call.when == "call" and report.passed and (reason := COSTS.of(item, report)):
        report.outcome, report.longrepr = "failed", f"{item.nodeid} {reason}"
    return report


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("--ci"):
        terminalreporter.section("costs")
        ended = (terminalreporter.stats.get(outcome, ()) for outcome in ("passed", "failed"))
        for line in summary(report for reports in ended for report in reports):
            terminalreporter.line(line)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """Forbid a skip of a whole module."""
    return _forbid((yield))
