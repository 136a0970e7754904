"""Tests of topology/packing."""
