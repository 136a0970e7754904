"""Chunks on their way without a detour through memory.

Each port keeps what it has written last (`recent_writes`). A `chunk_reader` gets a chunk flit by
flit, out of those while they are kept and else out of memory, and a `merged_queue` puts both in
order. Senders read what they send with it, receivers what they add to.
"""
