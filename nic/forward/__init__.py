"""Chunks on their way without a detour through memory.

Each port keeps what it has written last (`positions`). A `chunk_reader` gets a chunk flit by flit,
out of those while they are kept and else out of memory, in order. Senders read what they send with
it, receivers what they add to. Every block's `state_error` is a strobe: bits of what it queues have
flipped.
"""
