"""Topologies and schedules in files that are not trusted.

`files` reads and writes both nouns as JSON or GraphML, by the name of the file. Text is read
within limits of size and memory, and what is read is verified before anyone gets it.
"""
