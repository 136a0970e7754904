"""Tests of hw/axi."""
