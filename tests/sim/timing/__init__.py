"""Tests of sim/timing."""
