"""Tests of the sim room."""
