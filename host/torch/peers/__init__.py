"""How the processes of one group reach each other, and notice that one fails.

`connections` join each rank with all others and carry `frames`. The one thread of a group, in
`progress`, reads them and runs what was submitted, which ends the `handles` that users wait for;
`mailbox` matches messages. `failures` finds the rank for which a group fails, and a `member` puts
all this together for users' threads.
"""
