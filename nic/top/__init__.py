"""Ports and cores: the blocks wired together."""
