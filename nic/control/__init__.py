"""Commit, start, done: registers, memories, checker, tracker, faults.

The bus writes a table into the inactive bank (`register_file`, `memories`); a commit has
it checked and swaps banks; a start runs it (`collective`); the tracker counts what is in and
reports when all is done; the monitor stops everything at the first fault.
"""
