"""Forests: spanning trees packed onto links, and their modulo schedule.

Links become pairs, or overlay links where there are switches; pairs become as many spanning
trees as the cut bound allows, made shallow by exchanges; the transfers of those trees get start
times modulo a period; `forest` puts it together and returns a `Schedule` in waves.
"""
