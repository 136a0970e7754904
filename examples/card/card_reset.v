// SPDX-License-Identifier: Apache-2.0
// An asynchronous reset, released in step with a clock: it begins at once, even without a clock.

`default_nettype none

module card_reset (
    input wire clk,
    input wire rst_n,
    output wire rst
);
    // The interface takes rst at clock edges, the queues of the crossings at once: both are meant.
    // verilator lint_off SYNCASYNCNET
    (* ASYNC_REG = "TRUE" *) reg [2:0] held;
    // verilator lint_on SYNCASYNCNET
    always @(posedge clk or negedge rst_n)
        if (!rst_n) held <= 3'b111;
        else held <= {held[1:0], 1'b0};
    assign rst = held[2];
endmodule

`default_nettype wire
