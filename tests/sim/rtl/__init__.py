"""Tests of sim/rtl."""
