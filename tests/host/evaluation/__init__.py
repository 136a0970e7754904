"""Tests of host/evaluation."""
