"""Tests of topology/routing."""
