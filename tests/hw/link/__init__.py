"""Tests of hw/link."""
