"""Tests of nic/top."""
