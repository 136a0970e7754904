"""AXI4 managers for memory and the AXI4-Lite subordinate for registers.

`bursts` turns an interface's memory channels into bursts and brings back data and responses
in order; `lite` turns the bus into register reads and writes.
"""
