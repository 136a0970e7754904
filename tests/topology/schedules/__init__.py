"""Tests of topology/schedules."""
