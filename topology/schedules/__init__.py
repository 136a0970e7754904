"""The schedule, what it means, and how its rows are kept in order.

Trees or rows become a `Schedule`, which checks itself and does not change; `execute` defines in
NumPy what it computes. `trees` fixes the order of every sum, so that results are
bit-exact on every engine.
"""
