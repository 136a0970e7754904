"""Properties of the blocks of hw."""
