"""Routes from rank to rank that are free of deadlock."""
