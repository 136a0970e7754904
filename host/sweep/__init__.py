"""Sweeps: every combination of parameters that a file names, run once and kept.

`definition` reads the file (`yaml_text`) into a `Grid` of `Point`s; `local_workers` or
`dask_workers` answer them by `point_run`; `store` keeps each result at once under the hash of its
point and of the code (`code_version`); `run` puts this together, and `result_files` writes all rows
at the end. What differs between two runs, such as dates, is in the `run_log` only.
"""
