"""Tests of nic/send."""
