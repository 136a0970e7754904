"""The programmer's model of an interface, in plain Python.

Sizes (`Config`) and formats of entries give registers and their map. A schedule becomes a table of
rows, its routes included. Commands and settings are register writes, which the driver orders.
"""
