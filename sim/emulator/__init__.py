"""The generated Verilog compiled, wired into networks and clocked.

Verilog becomes a C++ library, kept in a cache by the hash of all sources; `network` wires as many
interfaces as the topology has ranks and runs one script of bus accesses per rank in it.
"""
