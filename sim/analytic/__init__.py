"""Cycle counts without data, from the schedule and a link model.

A schedule becomes messages with sizes and dependencies; `engine` computes on private links when
each flit goes, generation by generation; on shared links events pass through senders, wormhole
channels, receivers and reductions. Both return a `Trace`.
"""
