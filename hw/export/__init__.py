"""Verilog, register maps and core files written from components."""
