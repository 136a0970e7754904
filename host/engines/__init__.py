"""Engines that a Communicator runs on.

`engines` lists them by name: NumPy's definition, the analytic model, emulated RTL, and PyTorch.
Each takes a schedule and a buffer for each rank, and returns results and, where it has one, a
`Trace`.
"""
