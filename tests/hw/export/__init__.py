"""Tests of hw/export."""
