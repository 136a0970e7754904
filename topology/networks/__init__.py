"""Networks: nodes, directed links, distances, cuts and bounds."""
