"""Cycle counts without data, from the schedule and a link model."""
