"""Tests of nic.forward."""
