"""Tests of host/driver."""
