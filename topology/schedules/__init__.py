"""The schedule, what it means, and how its rows are kept in order."""
