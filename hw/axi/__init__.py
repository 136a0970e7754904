"""AXI4 managers for memory and the AXI4-Lite subordinate for registers."""
