"""The exact engine: interfaces go through the cycles of their RTL, without data.

`tables` turns a schedule into what each interface executes; `library` compiles the model, C++
blocks that mirror those of `nic` and `hw` one by one, and runs it; `engine` returns the Trace.
"""
