"""Python models that stand around the design: hosts, memories, neighbours."""
