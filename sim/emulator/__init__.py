"""The generated Verilog compiled, wired into networks and clocked."""
