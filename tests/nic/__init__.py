"""Tests of the nic room."""
