"""Benches that run on generated Verilog."""
