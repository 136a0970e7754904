"""Tests of host/engines."""
