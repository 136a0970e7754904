"""The command line.

`main` has the table of commands and loads the module of the one that is called. `options` are
parameters that several commands share; `process` turns errors, signals and closed pipes into one
sentence and an exit status; `output` prints for people, as JSON and as CSV.
"""
