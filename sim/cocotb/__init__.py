"""Models for cocotb benches: links, memories, hosts, partners, coverage.

`link_end` stands at the other end of a port's link, `memory` and `axi_memory` behind its memory
channels, `register_host` on its register bus. `traffic` says what a schedule makes each port send
and take, `partner` plays it, and `scoreboard` holds the memories against `execute`. `stalls` holds
boundaries up, `coverage` counts what was reached. `multitree.cocotb` is the door to all of them.
"""
