"""Algorithms that build schedules, by name."""
