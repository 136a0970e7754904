"""Credited links: their two ends, check, session and clock crossing.

A transmitter sends flits while it has credits and appends a CRC; a receiver checks and buffers them
and returns credits. `port` brings a link up by a handshake.
"""
