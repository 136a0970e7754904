"""A wormhole switch with virtual channels, from input to output.

Each input reads routes from heads and asks for an output; the allocator grants outputs and
channels; the fabric moves flits; `faults` keeps the first fault and sends it to neighbours.
"""
