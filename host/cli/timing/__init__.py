"""Commands that run schedules on an engine with a clock.

`simulate` runs one, `compare` several of them side by side;
`explain` says which one is the fastest, which `simulate` asks for the algorithm "auto".
"""
