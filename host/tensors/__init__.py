"""Schedules executed on PyTorch tensors, on CPU or CUDA.

`operators` defines what becomes of two elements, with the bits of `combine`. `executor` runs a
whole schedule on the memories of all ranks with these: `fused`, along the straight-line `programs`
of its flows and with every input read once, on CUDA in generated `kernels` (`kernel_source`), or
`stepwise`, with a few calls for all that is sent at once. `invariant` makes sums that no schedule
changes, of integers.
"""
