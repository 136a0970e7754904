"""Sums in memory, in a fixed order."""
