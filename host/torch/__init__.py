"""The backend of torch.distributed: every rank executes its own table.

`register` makes the backend known to PyTorch, and `creation` makes a group by its `options`.
`process_group` has PyTorch's methods and hands flat tensors (`staging`) to `group`, which knows the
collectives, and `composed`, which makes invariant and sparse sums of them. `layouts` says what the
rank does in which order, and which elements a flow carries; `collective` does it over a transport,
`shared_memory` or `messages`, or `hosted` has one rank run an engine for all. What ranks send each
other goes through `peers`, whose thread runs all this. `dump` shows it from outside, and `profiles`
in those of PyTorch.
"""

__all__ = ["BACKEND"]

BACKEND = "multitree"
"""Name that `init_process_group` takes."""
