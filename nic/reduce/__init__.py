"""Sums in memory, in a fixed order.

`reducer` reads, adds and writes flit by flit; `sequencer` says which contribution is next in each
sum; `reorder_buffer` brings those that came too early, once it is their turn. Of every block,
`fault` is a strobe with a `FaultCode`, and `state_error` a strobe: bits of what it queues have
flipped.
"""
