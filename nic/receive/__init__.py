"""From flits to memory: header check, lookup, and the datapath behind.

A head is held against the table and the duplicate filter; the payload behind it then goes to the
reducer. On private links each port does so alone; the `shared_*` modules do it for several
virtual channels, with the reduction sequencer's consent.
"""
