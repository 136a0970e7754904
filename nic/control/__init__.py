"""Commit, start, done: registers, memories, checker, tracker, faults."""
