"""The driver of one interface and the buses it works over.

`driver` loads tables and runs collectives by register reads and writes over a `Bus`; `card` says
what it knows of a card, and `emulated_bus` is a `Bus` on one rank of an emulated network.
"""
