"""Schedules and traces to look at.

`placement` lays out a topology; `recording` makes columns of that, a schedule and its trace;
`player_page` puts them, as `columns` packs them, into one HTML file with what stands in `page/`.
`trace_events` writes a trace for Perfetto.
"""
