"""From table row to flits: fetch, wait for dependencies, read, frame.

Rows of the table come out of `fetcher` as jobs, rows with their flow's addresses and dependency,
wait in `issuer` for that, are read from memory, and leave the framer in `sender` as messages of
flits. Every block's `state_error` is a strobe: bits of what it queues have flipped.
"""
