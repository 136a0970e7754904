"""The command line.

`main` names the commands, one module each; those that run schedules are in `timing`. `options` and
`common` are what they share; `process` turns errors, signals and closed pipes into one sentence and
an exit status; `output` prints for people, as JSON and as CSV.
"""
