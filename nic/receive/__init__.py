"""From flits to memory: header check, lookup, and the datapath behind."""
