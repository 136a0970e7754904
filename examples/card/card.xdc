# Clocks: periods in ns are examples; replace them by those of the card.
create_clock -name core_clk -period 4.000 [get_ports core_clk]
create_clock -name link_0_clk -period 3.103 [get_ports link_0_clk]
create_clock -name link_1_clk -period 3.103 [get_ports link_1_clk]
create_clock -name link_2_clk -period 3.103 [get_ports link_2_clk]
create_clock -name link_3_clk -period 3.103 [get_ports link_3_clk]

# All that crosses are Gray-coded pointers into two-register synchronizers, and the memories of the
# queues, whose words are stable when the pointer arrives. A pointer's bits may differ by less than
# a period of the clock that writes, so the paths are bounded rather than cut.
set_max_delay -datapath_only 3.0 -from [get_clocks core_clk] \
    -to [get_clocks {link_0_clk link_1_clk link_2_clk link_3_clk}]
set_max_delay -datapath_only 3.0 -from [get_clocks {link_0_clk link_1_clk link_2_clk link_3_clk}] \
    -to [get_clocks core_clk]
set_property ASYNC_REG TRUE [get_cells -hierarchical -regexp {.*_crossing/.*_cdc/stage[01]_reg.*}]
set_false_path -from [get_ports rst_n]
