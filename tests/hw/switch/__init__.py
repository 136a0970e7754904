"""Tests of hw/switch."""
