"""Files of a hardware design: Verilog, benches, register writes.

What `multitree verilog` writes into a folder: modules, a test bench, the register writes of a
table, a core file, and a manifest of what belongs together.
"""
