"""Families of networks, built from their sizes.

`direct` builds rings, tori, meshes and hypercubes; `switched` and `clusters` build networks
with switches. Each returns a `Topology` that remembers its family, for closed forms.
"""
