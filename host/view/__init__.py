"""Schedules and traces to look at.

`placement` lays out a topology, by `layout` or `levels`; `player_page` makes columns of that, a
schedule and its trace, and puts them into one HTML file with what stands in `page/`.
`trace_events` writes a trace for Perfetto.
"""
