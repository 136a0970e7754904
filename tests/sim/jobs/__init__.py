"""Tests of sim/jobs."""
