"""From flits to memory: header check, lookup, and the datapath behind.

A head is held against the table and the duplicate filter; the payload behind it then goes to the
reducer. On private links each port does so alone; the `shared_*` modules do it for several virtual
channels, with the reduction sequencer's consent. Of every block, `port` is the number of its port,
`flits` come from the link's buffer, `fault` is a strobe with a `FaultCode`, and `state_error` a
strobe: bits of what it queues have flipped.
"""
