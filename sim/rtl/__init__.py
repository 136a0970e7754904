"""The rtl engine: hosts that load tables and run collectives.

`loads` turns a schedule into register writes for each rank; `hosts` commits, starts and waits as a
driver does; `session` runs any number of collectives on one emulated network and returns memories
and traces.
"""
