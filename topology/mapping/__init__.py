"""Schedules lowered onto hardware that lacks something they use.

Each module takes a `Schedule` and returns another that does the same: with a router attached to
every rank, with a header-only phase, or with its waves written out as flows.
"""
