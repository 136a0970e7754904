"""Tests of nic/control."""
