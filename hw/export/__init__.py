"""Verilog, register maps and core files written from components.

A component becomes Verilog text; a `RegisterMap`, declared once, becomes a C header, Markdown and
SystemRDL; both are listed in a FuseSoC core file.
"""
