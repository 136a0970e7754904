"""Proofs about schedules: correct sums, no races, no deadlock, causality."""
