"""Tests of topology/files."""
