"""Properties of the data path: from row to flit, and from flit to memory."""
