"""The rtl engine: hosts that load tables and run collectives.

`loads` turns a schedule into tables for each rank, settings and limits of time; `hosts` writes
them, commits, starts and waits as a driver does; `session` runs any number of collectives on one
emulated network and returns memories and traces.
"""
