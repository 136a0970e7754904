"""The MultiTree network interface and the tables it executes."""
