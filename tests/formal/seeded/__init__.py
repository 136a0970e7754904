"""Faults that are seeded, each of which a property has to catch."""
