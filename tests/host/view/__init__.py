"""Tests of pages and trace events."""
