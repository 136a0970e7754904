"""Tests of topology/checks."""
