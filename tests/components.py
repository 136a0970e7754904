"""One example of every hardware component and signature, to test its members."""

from multitree.nic.config import Config

CONFIG = Config()

COMPONENTS = {}

SIGNATURES = {}
