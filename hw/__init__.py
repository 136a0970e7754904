"""Reusable hardware blocks and Verilog generation."""
