"""Sums in memory, in a fixed order.

`reducer` reads, adds and writes flit by flit; `sequencer` says which contribution is next in each
sum; `reorder_buffer` brings those that came too early, once it is their turn.
"""
