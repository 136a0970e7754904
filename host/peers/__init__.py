"""How the processes of one group reach each other, and notice that one fails.

`connections` join each rank with all others and carry `frames`; one `progress` thread per group
reads them and runs the group's `jobs`, each of which ends a `handle`. `mailbox` matches messages,
`shared_memory` maps the memory of the ranks of a host. `watch` finds the rank for which a group
fails (`failures`), and a `member` puts them together.
"""
