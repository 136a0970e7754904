"""Tests of sim/analytic."""
