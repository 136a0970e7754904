"""Tests of sim/faults."""
