"""Tests of topology/families."""
