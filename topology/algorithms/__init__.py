"""Algorithms that build schedules, by name.

`build` takes a topology and the name of an algorithm and returns its `Schedule`. MultiTree grows
one tree a rank, link by link (`multitree`); the others follow a fixed pattern, or pack trees.
"""
