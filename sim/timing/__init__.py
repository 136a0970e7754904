"""What all models of time share: link model, sizes of interfaces, inputs, traces.

A `LinkModel` turns a topology into cycles; `sizing` gives the interfaces that a schedule needs,
`limits` bounds a run, and every engine returns a `Trace`.
"""
