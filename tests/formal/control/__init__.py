"""Properties of what controls an interface: registers, tables, tracker, faults."""
