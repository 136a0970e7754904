"""Schedules executed on PyTorch tensors, on CPU or CUDA."""
