"""The command job: how long an iteration of training takes, by algorithm.

`options` reads what computes and which algorithms in which modes are asked for, `command` times the
job with each of them, and `results` says what came out, for people and for programs.
"""
