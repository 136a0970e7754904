"""Schedules and traces to look at.

`placement` lays out a topology: `grids`, `levels` and `springs` say where nodes are drawn, and
along which line each link runs. `trace_events` writes a trace for Perfetto.
"""
