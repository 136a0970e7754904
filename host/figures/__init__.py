"""The figures of MultiTree's evaluation, and the comparisons that it leaves out.

`catalogue` lists them; each is a `Figure` that turns a `Request` into `Value`s, by `Point`s of a
sweep (`size_figures`, `scaling`, `sensitivity`), by training jobs (`training`) or by tables
(`table_size`). `make` puts it together: `rtl_points` adds what the RTL confirmed, `comparisons`
compares the series, `drawing` writes the picture and `files` the CSV.
"""
