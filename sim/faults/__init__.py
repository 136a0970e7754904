"""Faults: injected on purpose, diagnosed, and explained.

`injection` changes flits, state or links of a running network; after a fault `diagnosis` finds
the rank it began at, and `postmortem` says what every rank waited for.
"""
