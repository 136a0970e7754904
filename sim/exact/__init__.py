"""The exact engine: every interface goes through the cycles of its RTL, without data.

`tables` turns a schedule into what each interface executes; `library` compiles the model, C++
blocks that mirror those of `nic` and `hw` one by one, and runs it; `engine` returns the Trace.
"""
