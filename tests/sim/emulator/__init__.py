"""Tests of sim/emulator."""
