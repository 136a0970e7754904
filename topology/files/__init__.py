"""Topologies and schedules in files that are not trusted.

`load_save` reads and writes both nouns as JSON, and topologies as GraphML. Text is read within
limits of size and memory, and what is read is verified before anyone gets it.
"""
