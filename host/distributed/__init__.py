"""The backend of torch.distributed: every rank executes its own table.

`register` makes the backend known to PyTorch, and `creation` makes a group by its `options`.
`process_group` has PyTorch's methods and hands flat tensors (`staging`) to `group`, which knows
the collectives: `layouts` says which elements a flow carries, `rank_program` what the rank does in
which order, and `execution` does it over one of the `transports`, or `hosted` has one rank run an
engine for all. What ranks send each other goes through `host.peers`.
"""

__all__ = ["BACKEND"]

BACKEND = "multitree"
"""Name that `init_process_group` takes."""
