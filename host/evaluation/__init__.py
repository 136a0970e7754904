"""Sweeps, and the figures that are made of their points.

`definition` reads a sweep's file into a `Grid` of `Point`s and `sources` its topologies. `workers`
answer points by `point_run`, `store` keeps each result under the hash of its point and of the code,
and `sweep` puts this together. A `figure` turns a `Request` into values, by points (`size_figures`,
`sensitivity`), by tables or by jobs (`training`); `schemes` count cycles, `timed` adds what the RTL
measured, `drawing` draws, and `make` puts that together.
"""
