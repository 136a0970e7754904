"""Training jobs: how long an iteration takes with collectives on our schedules.

`networks` and `layer_shapes` hold networks as layers, `systolic_arrays` turns these into compute
times, `aicb_text` and `aicb_csv` read recorded workloads; `network_job` and `read` return a `Job`.
`groups` places its groups of ranks on a topology, `collective_times` times their collectives by
the analytic engine, `gradients` says which layers' gradients are sent together, and `iteration`
puts compute and communication on one time line, a `JobTime`.
"""
