// Stands in for an interface in tests of the harness: a host's write makes it send one flit, one
// credit, one read or one write, and it notes the cycles in which things happen.
module probe(
  input clk, input rst,
  input [19:0] s_axil_awaddr, input [2:0] s_axil_awprot, input s_axil_awvalid,
  output s_axil_awready,
  input [31:0] s_axil_wdata, input [3:0] s_axil_wstrb, input s_axil_wvalid, output s_axil_wready,
  output [1:0] s_axil_bresp, output reg s_axil_bvalid, input s_axil_bready,
  input [19:0] s_axil_araddr, input [2:0] s_axil_arprot, input s_axil_arvalid,
  output s_axil_arready,
  output reg [31:0] s_axil_rdata, output [1:0] s_axil_rresp, output reg s_axil_rvalid,
  input s_axil_rready,
  output reg irq,
`define PORT(p) \
  output reg link_``p``_tx_valid, output [2:0] link_``p``_tx_kind, output link_``p``_tx_vc, \
  output [2:0] link_``p``_tx_sequence, output link_``p``_tx_epoch, \
  output [31:0] link_``p``_tx_check, output [63:0] link_``p``_tx_payload, \
  input link_``p``_tx_credit, \
  input link_``p``_rx_valid, input [2:0] link_``p``_rx_kind, input link_``p``_rx_vc, \
  input [2:0] link_``p``_rx_sequence, input link_``p``_rx_epoch, \
  input [31:0] link_``p``_rx_check, input [63:0] link_``p``_rx_payload, \
  output reg link_``p``_rx_credit, \
  output reg memory_``p``_send_valid, output [7:0] memory_``p``_send_address, \
  input memory_``p``_send_ready, input memory_``p``_send_data_valid, \
  input [63:0] memory_``p``_send_data, input memory_``p``_send_error, \
  output memory_``p``_fetch_valid, output [7:0] memory_``p``_fetch_address, \
  input memory_``p``_fetch_ready, input memory_``p``_fetch_data_valid, \
  input [63:0] memory_``p``_fetch_data, input memory_``p``_fetch_error, \
  output reg memory_``p``_write_valid, output [7:0] memory_``p``_write_address, \
  output [63:0] memory_``p``_write_data, input memory_``p``_write_ready, \
  input memory_``p``_write_ack, input memory_``p``_write_error, \
  output monitor_``p``_valid, output monitor_``p``_op, output [15:0] monitor_``p``_flow
  `PORT(0),
  `PORT(1)
);
  reg [31:0] now, value;
  reg [31:0] note [0:15];
  reg [7:0] place;
  reg [3:0] burst;
  // Address and data are taken at different times, so that each has to be held until it is.
  reg got_aw, got_w;
  reg [19:0] address;
  assign s_axil_awready = now[1:0] == 1, s_axil_wready = now[1:0] == 2, s_axil_arready = now[0];
  assign s_axil_bresp = 0, s_axil_rresp = place == 8'hff ? 2 : 0;
  assign link_0_tx_kind = value[2:0], link_0_tx_vc = value[3], link_0_tx_sequence = value[6:4];
  assign link_0_tx_epoch = value[7], link_0_tx_check = ~value;
  assign link_0_tx_payload = {32'b0, value};
  assign memory_0_send_address = value[7:0];
  assign memory_0_write_address = value[7:0], memory_0_write_data = {32'b0, value};
  assign memory_0_fetch_valid = 0, memory_0_fetch_address = 0;
  assign monitor_0_valid = 0, monitor_0_op = 0, monitor_0_flow = 0;
  assign link_1_tx_kind = 0, link_1_tx_vc = 0, link_1_tx_sequence = 0, link_1_tx_payload = 0;
  assign link_1_tx_epoch = 0, link_1_tx_check = 0;
  assign memory_1_send_address = 0, memory_1_fetch_valid = 0, memory_1_fetch_address = 0;
  assign memory_1_write_address = 0, memory_1_write_data = 0;
  assign monitor_1_valid = 0, monitor_1_op = 0, monitor_1_flow = 0;
  always @(posedge clk) begin
    now <= now + 1;
    link_1_tx_valid <= 0;
    link_1_rx_credit <= 0;
    memory_1_send_valid <= 0;
    memory_1_write_valid <= 0;
    link_0_tx_valid <= burst > 1;
    if (burst != 0) burst <= burst - 1;
    link_0_rx_credit <= 0;
    if (s_axil_bready) s_axil_bvalid <= 0;
    if (s_axil_rready) s_axil_rvalid <= 0;
    if (s_axil_awvalid && s_axil_awready) begin
      got_aw <= 1;
      address <= s_axil_awaddr;
    end
    if (s_axil_wvalid && s_axil_wready) begin
      got_w <= 1;
      value <= s_axil_wdata;
    end
    if (got_aw && got_w) begin
      got_aw <= 0;
      got_w <= 0;
      s_axil_bvalid <= 1;
      case (address)
        20'h00: begin link_0_tx_valid <= 1; note[0] <= now + 1; end
        20'h04: begin link_0_rx_credit <= 1; note[3] <= now + 1; end
        20'h08: memory_0_send_valid <= 1;
        20'h0c: memory_0_write_valid <= 1;
        20'h10: irq <= value[0];
        20'h14: link_1_tx_valid <= 1;
        20'h18: begin link_0_tx_valid <= 1; burst <= value[11:8]; note[0] <= now + 1; end
      endcase
    end
    if (s_axil_arvalid && s_axil_arready) begin
      s_axil_rvalid <= 1;
      place <= s_axil_araddr[7:0];
      s_axil_rdata <= s_axil_araddr == 20'h40 ? now : note[s_axil_araddr[5:2]];
    end
    if (link_0_rx_valid) begin
      note[1] <= now;
      note[2] <= {24'b0, link_0_rx_epoch, link_0_rx_sequence, link_0_rx_vc, link_0_rx_kind};
      note[13] <= link_0_rx_check;
      note[11] <= link_0_rx_payload[31:0];
      note[12] <= note[12] + 1;
    end
    if (link_0_tx_credit) note[4] <= now;
    if (memory_0_send_valid && memory_0_send_ready) begin
      memory_0_send_valid <= 0;
      note[5] <= now;
    end
    if (memory_0_send_data_valid) begin
      note[6] <= now;
      note[7] <= memory_0_send_data[31:0];
    end
    if (memory_0_write_valid && memory_0_write_ready) begin
      memory_0_write_valid <= 0;
      note[8] <= now;
    end
    if (memory_0_write_ack) note[9] <= now;
    if (rst) begin
      now <= 0;
      irq <= 0;
      burst <= 0;
      got_aw <= 0;
      got_w <= 0;
      note[12] <= 0;
      link_0_tx_valid <= 0;
      memory_0_send_valid <= 0;
      memory_0_write_valid <= 0;
      s_axil_bvalid <= 0;
      s_axil_rvalid <= 0;
    end
  end
endmodule
