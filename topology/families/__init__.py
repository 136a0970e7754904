"""Families of networks, built from their sizes."""
