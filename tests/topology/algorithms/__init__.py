"""Tests of topology/algorithms."""
