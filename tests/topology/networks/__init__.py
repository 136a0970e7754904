"""Tests of topology/networks."""
