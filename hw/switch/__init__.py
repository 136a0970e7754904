"""A wormhole switch with virtual channels, from input to output."""
