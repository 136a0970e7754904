"""Models for cocotb benches: links, memories, hosts, partners, coverage.

`link_end` stands at the other end of a port's link, `memory` behind its memory channels,
`register_host` on its register bus; `rank` has both of one interface, and `pins` steps them.
`reference` says what a schedule makes each port send and take and leaves in memory, `partner` plays
it. `stalls` holds boundaries up, `coverage` counts what was reached. `bench` puts it all together,
`case` says what a folder of benches runs, and `runs` runs it by `simulators`. `multitree.cocotb` is
the door to all of them.
"""
