"""How the processes of one group reach each other, and notice that one fails.

`connections` join each rank with all others and carry `frames`; `mailbox` matches messages.
`progress` reads them and runs what was submitted, which ends the `handles` that users wait for.
`failures` finds the rank for which a group fails, `flight` keeps what is under way for those who
look, and a `member` puts all this together.

Threads: `progress.Progress` owns those of a group. One reads, writes and ends what was begun; what
blocks runs in its helper. Users' threads enter by a `member.Member`, and leave in
`handles.Handle.wait`. Those of a process: `futures.CALLBACKS` runs what users hang on Futures, and
`watchdog.WATCHDOG` fails a group whose own thread does not turn. Besides, a failure is written to
the store in a thread that ends with that.
"""
