"""Routes from rank to rank that are free of deadlock.

`default_routes` picks the routing of a network: dimension order, up/down, or shortest legal
paths. What comes out is a route for each pair of ranks: its links, and a virtual channel class
for each of them.
"""
