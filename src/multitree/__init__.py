"""The door: what users of MultiTree import."""
