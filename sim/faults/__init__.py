"""Faults: injected on purpose, diagnosed, and explained.

`injection` changes flits, state or links of a running network; after a fault `diagnosis` finds
the rank it began at and the first message missing, and `wait_graph` what each message waits for.
"""
