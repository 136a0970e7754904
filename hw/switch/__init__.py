"""A wormhole switch with virtual channels, from input to output.

Each input reads routes from heads and asks for an output, which grants its channels to the oldest;
the fabric moves flits; `faults` keeps the first fault and sends it to neighbours.
"""
