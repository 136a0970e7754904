"""Files of a hardware design: Verilog, benches, register writes."""
