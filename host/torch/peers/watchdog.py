"""The thread of a process that looks after the threads of its groups."""

import os
import threading
import time
import weakref
from typing import Protocol

from multitree.host.torch.peers.futures import CALLBACKS

__all__ = ["TICK_S", "WATCHDOG", "Watchdog", "Watched"]

TICK_S = 0.5
"""Time between two looks."""


class Watched(Protocol):
    """One rank's end of a group."""

    def look(self, seconds: float) -> None:
        """Fail it where its thread does not turn; called every so many seconds."""


class Watchdog:
    """One thread for all groups of a process, as long as there are any.

    What it looks after may end by itself: it holds no reference.
    """

    def __init__(self) -> None:
        self._watched: weakref.WeakSet[Watched] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._has_thread = False

    def watch(self, watched: Watched) -> None:
        """Look after a group from now on."""
        with self._lock:
            self._watched.add(watched)
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._run, name="multitree-watchdog", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(TICK_S)
            CALLBACKS.hand_over()
            if not self._look():
                return

    def _look(self) -> bool:
        """Look after all; False where there is nothing to look after any more."""
        # Groups are held here, and not while the thread sleeps.
        with self._lock:
            groups = list(self._watched)
            if not groups and not CALLBACKS.is_busy:
                self._has_thread = False
                return False
        for group in groups:
            group.look(TICK_S)
        return True


WATCHDOG = Watchdog()
os.register_at_fork(after_in_child=WATCHDOG.__init__)  # type: ignore[misc]
