"""Faults: injected on purpose, diagnosed, and explained."""
