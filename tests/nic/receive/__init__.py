"""Tests of nic/receive."""
