"""Credited links: their two ends, check, session and clock crossing."""
