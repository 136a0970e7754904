"""Tests of the topology room."""
