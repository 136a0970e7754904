"""What `torchrun` starts in the runs of ``torch_failures.py`` that begin again.

Ranks begin at different times, and do all-reduces in the default group and in one of half of them.
In the first attempt they do so until the rank ``VICTIM`` is killed, ``DELAY_S`` after it begins to
make groups, or after they are made, as ``MOMENT`` says; in the next one they do ten and write what
they have summed to ``FOLDER``.
"""

import os
import random
import signal
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

LATEST_S = 0.5

if __name__ == "__main__":
    rank, num_ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    time.sleep(random.uniform(0, LATEST_S))
    kill = threading.Timer(float(os.environ["DELAY_S"]), os.kill, (os.getpid(), signal.SIGKILL))
    is_victim = is_first and rank == int(os.environ["VICTIM"])
    if is_victim and os.environ["MOMENT"] == "making":
        kill.start()
    dist.init_process_group("multitree")
    half = dist.new_group(range(num_ranks // 2))
    if is_victim and os.environ["MOMENT"] == "made":
        kill.start()
    turn, ones = 0, torch.ones(1000)
    while is_first or turn < 10:
        turn, ones = turn + 1, torch.ones(1000)
        if rank < num_ranks // 2:
            dist.all_reduce(ones, group=half)
        dist.all_reduce(ones)
    (Path(os.environ["FOLDER"]) / str(rank)).write_text(str(ones[0].item()))
    dist.destroy_process_group()
