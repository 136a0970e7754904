"""Tests of host/cli."""
