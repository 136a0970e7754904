"""Training jobs: how long an iteration takes with collectives on our schedules.

`models` hold models as layers, `systolic_arrays` turns their shapes into compute times,
`aicb` reads recorded workloads; `read` returns a `Job` of either. `groups` places its groups of
ranks on a topology, `collective_times` times their collectives by the analytic engine, and
`iteration` puts compute and communication on one time line, a `JobTime`.
"""
