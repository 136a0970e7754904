"""Tests of MultiTree, one folder per room."""
