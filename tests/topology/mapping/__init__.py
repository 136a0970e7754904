"""Tests of topology/mapping."""
