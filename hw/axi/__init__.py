"""AXI4 managers for memory and the AXI4-Lite subordinate for registers.

`channel_bridges` turn an interface's memory channels into bursts and bring back data and responses
in order; `lite` turns the bus into register reads and writes.
"""
