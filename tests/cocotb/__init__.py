"""cocotb benches: the generated Verilog on Icarus and on Verilator."""
