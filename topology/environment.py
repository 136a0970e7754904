"""Variables of the environment: their names, and the refusal of all others."""

import os
from collections.abc import Mapping

from multitree.topology.errors import meant

__all__ = ["VARIABLES", "check_variables", "variable"]

VARIABLES = {
    "MULTITREE_CACHE": "folder of compiled things",
    "MULTITREE_BENCH_STALLS": "stalls of a cocotb bench",
    "MULTITREE_TOPOLOGY": "topology of the default group",
    "MULTITREE_ALGORITHM": "algorithm of groups",
    "MULTITREE_ENGINE": "engine of groups",
    "MULTITREE_TRANSPORT": "transport of groups",
    "MULTITREE_REPRODUCIBLE": "what bits of groups depend on",
    "MULTITREE_LOG": "file of collectives of groups",
    "MULTITREE_HOST_ADDRESS": "address of a rank's host",
    "MULTITREE_DUMP": "path of dumps",
    "MULTITREE_DUMP_SIGNAL": "signal that writes them",
    # Of the project's own tests and benches.
    "MULTITREE_CI": "which tests run",
    "MULTITREE_QUARTER": "which quarter of them",
    "MULTITREE_FORBID_SKIP": "whether a skipped test has failed",
    "MULTITREE_SEED": "seed of random tests",
    "MULTITREE_CAMPAIGN": "campaign of a bench",
    "MULTITREE_TEST_NO_START": "workers that do not start",
}
"""Every variable that the project reads, and what it is."""
_PREFIX = "MULTITREE_"


def variable(name: str) -> str | None:
    """The value of one of `VARIABLES`; None where it is unset or empty. ValueError as below."""
    assert name in VARIABLES, name
    check_variables()
    return os.environ.get(name) or None


def check_variables(given: Mapping[str, str] = os.environ) -> None:
    """Raise a ValueError that names a variable of ours that nothing reads.

    >>> check_variables({"MULTITREE_TOPOLGY": "ring:4"})
    Traceback (most recent call last):
    ValueError: Variable MULTITREE_TOPOLGY must be one that is read. Did you mean 'TOPOLOGY'?
    """
    for name in sorted(given):
        if name.startswith(_PREFIX) and name not in VARIABLES:
            # Without the prefix, by which all of them are close to each other.
            known = [each.removeprefix(_PREFIX) for each in VARIABLES]
            hint = meant(name.removeprefix(_PREFIX), known)
            hint = hint or f"; behind {_PREFIX} are read {', '.join(known)}"
            raise ValueError(f"Variable {name} must be one that is read{hint}")
