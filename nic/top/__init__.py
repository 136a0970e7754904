"""Ports and cores: the blocks wired together.

A port joins a link with its receiver and sender; a core joins all ports with control. The
`shared_*` pair is for interfaces whose links are shared through a switch.
"""
