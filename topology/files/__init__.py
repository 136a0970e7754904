"""Topologies and schedules in files that are not trusted."""
