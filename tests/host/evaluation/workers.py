"""What worker processes run in tests; importable, since they start anew."""

import os
import signal
import time

from multitree import SweepError
from multitree.host.evaluation.point import PointResult
from multitree.host.evaluation.point_run import Answer, answer


def here(tasks, _=None):
    """Answer points in this process, since starting others takes a second."""
    for task in tasks:
        yield task, answer(task)


def answer_or_die(task):
    """Do what the size of a point asks for."""
    how = task.point.size_bytes
    if how == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == 36:
        os.kill(os.getpid(), 36)
    if how == 8:
        os._exit(3)
    if how == 12:
        raise SweepError("no more")
    if how == 40:
        end = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, end))
        time.sleep(60)
    if how in (16, 32):
        time.sleep(60 if how == 16 else 2)
    return Answer(PointResult(num_ranks=how), kept=True, costs={"pid": os.getpid()})


if os.environ.get("MULTITREE_TEST_NO_START"):
    os._exit(7)
