"""Tests of sweeps."""
