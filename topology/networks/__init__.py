"""Networks: nodes, directed links, distances, cuts and bounds.

A graph, or numbered nodes and links, becomes a `Topology`, which checks itself and does not
change. Everything else reads one: distances and cuts give bounds, cycles give symmetry, and
`Topology.without` and `subsets` make smaller networks.
"""
