"""Forests: spanning trees packed onto links, and their modulo schedule."""
