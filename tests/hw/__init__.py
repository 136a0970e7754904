"""Tests of the hw room."""
