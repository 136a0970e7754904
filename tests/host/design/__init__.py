"""Tests of host/design."""
