"""Engines that a Communicator runs on."""
