"""Proofs about schedules: correct sums, no races, no deadlock, causality.

A `Schedule` goes in, and a report or a `ScheduleError` that names row and rule comes out.
`verify` runs all proofs; `implicit` proves a schedule that is given as one tree and its
translations.
"""
