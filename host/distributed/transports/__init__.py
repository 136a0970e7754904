"""How chunks travel between the ranks of a group.

`shared_memory` between ranks of one host; else `messages`, which are `posted` one by one (gloo) or
`batched` by step (NCCL). `arrivals` has what ranks have said of their chunks.
"""
