"""Tests of nic/driver."""
