"""Tests of nic/reduce."""
