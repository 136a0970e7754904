"""Formal properties of the hardware, and the faults that each has to catch."""
