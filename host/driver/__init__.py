"""The driver of one interface and the buses it works over."""
