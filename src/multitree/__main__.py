"""The process that `multitree` and `python -m multitree` are."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # While modules are loaded an interrupt just ends the process, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from multitree.host.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
