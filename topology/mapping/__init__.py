"""Schedules lowered onto hardware that lacks something they use."""
