"""Schedules executed on PyTorch tensors, on CPU or CUDA.

`operators` defines what becomes of two elements, with the bits of `combine`; `executor` runs a
whole schedule on the memories of all ranks with these; `invariant` makes sums that no schedule
changes, of integers.
"""
