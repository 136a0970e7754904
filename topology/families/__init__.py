"""Families of networks, built from their sizes.

`direct` builds rings, tori, meshes and hypercubes, with checks of sizes and names that all families
share; `switched` and `clusters` build networks with switches. Each returns a `Topology` that
remembers its family, for closed forms.
"""
