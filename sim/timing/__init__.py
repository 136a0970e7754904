"""What all models of time share: link model, sizes of interfaces, inputs, traces.

A `LinkModel` turns a topology into cycles; `sizing` gives the interfaces that a schedule needs,
`limits` bounds a run. `model` is the interface of `analytic` and `exact`: a `Run` checks what they
are given, and makes the `Trace` that every engine returns.
"""
