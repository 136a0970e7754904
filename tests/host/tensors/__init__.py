"""Tests of what stands on PyTorch."""
