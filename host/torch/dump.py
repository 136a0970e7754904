"""Dumps of what all groups of a process do, as PyTorch's flight recorder writes."""

import contextlib
import json
import logging
import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict
from time import monotonic, time_ns
from typing import Any
from weakref import WeakValueDictionary

from multitree.host.torch import BACKEND
from multitree.host.torch.peers.flight import FlightEntry, Message
from multitree.host.torch.peers.frames import Fingerprint
from multitree.host.torch.peers.member import Member
from multitree.topology.environment import variable
from multitree.topology.file_io import write_file

__all__ = ["call_on_signal", "dump", "dump_when_failed"]

_LOGGER = logging.getLogger("multitree.torch")

VERSION = "2.10"
"""Of the form of PyTorch's flight recorder."""

TAKEN_NAME = "gloo"
"""In front of a collective's name: PyTorch's tool refuses names that it does not know."""

# The newest of each name; groups that PyTorch has dropped are gone.
_GROUPS: WeakValueDictionary[str, Any] = WeakValueDictionary()
_CHOSEN_SIGNALS: set[int] = set()


def dump(path: str | None = None) -> dict[str, Any]:
    """What all groups of this process have under way, and the last collectives of each.

    Nothing is stopped: any thread may call it at any time.

    Parameters
    ----------
    path : str, optional
        Path of a file that is written: JSON if it ends in ``.json``, else a pickle for PyTorch's
        ``torchfrtrace``. "{rank}" in it is the rank in the default group.

    Returns
    -------
    dict
        With the keys of PyTorch's flight recorder, and more; the page on the host has them.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    groups = list(_GROUPS.values())
    trace = _trace_of([(m, group._description) for group in groups for m in group.members])
    if path is not None:
        own = str(trace[BACKEND]["rank"])
        content = json.dumps(trace).encode() if path.endswith(".json") else pickle.dumps(trace)
        write_file(path.replace("{rank}", own), content)
    return trace


def dump_when_failed(group: Any) -> None:
    """Have a group in dumps; if a path is set, they are written when it fails or a signal comes."""
    member = group.group.member
    known = _GROUPS.get(member.group)
    # Since 2.15 a group and its backend stand for one member: the group has the description.
    if known is None or known.group.member is not member:
        _GROUPS[member.group] = group
    path = variable("MULTITREE_DUMP") or os.environ.get("TORCH_FR_DUMP_TEMP_FILE")
    name = variable("MULTITREE_DUMP_SIGNAL")
    if not path:
        if name:
            _LOGGER.warning("Signal %s for dumps must have a path in MULTITREE_DUMP", name)
        return
    named = path if "{rank}" in path else path + "{rank}"

    def write() -> None:
        try:
            dump(named)
        except Exception:
            _LOGGER.exception("Dump %s was not written", named)

    member.flight.when_failed = write
    if name:
        call_on_signal(name, write)


def _trace_of(groups: list[tuple[Member, str]]) -> dict[str, Any]:
    """The dump of all groups."""
    clock = _Clock()
    entries: list[tuple[float, dict[str, Any]]] = []
    num_forgotten = 0
    configurations, states, ours = {}, {}, {}
    for number, (member, description) in enumerate(groups):
        name, found = member.group, member.flight.entries()
        collectives = [each for each in found if isinstance(each.what, Fingerprint)]
        num_forgotten += max((each.sequence for each in collectives), default=0) - len(collectives)
        place = {"pg_id": number, "process_group": (name, description)}
        entries += [(e.created_s, {**place, **_entry_of(e, member, clock)}) for e in collectives]
        ranks = str(member.flight.global_ranks)
        configurations[name] = {"name": name, "desc": description, "ranks": ranks}
        states[str(number)] = _state_of(collectives)
        ours[name] = _facts_of(member, found, clock)
    entries.sort(key=lambda pair: pair[0])
    # PyTorch's tool leaves out what is older than the oldest entry of any rank.
    for index, (_, entry) in enumerate(entries):
        entry["record_id"] = num_forgotten + index
    return {
        "version": VERSION,
        "comm_lib_version": BACKEND,
        "pg_config": configurations,
        "pg_status": states,
        "entries": [entry for _, entry in entries],
        BACKEND: {
            "rank": groups[0][0].global_rank if groups else None,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "time_ns": clock.now_ns,
            "groups": ours,
        },
    }


def _facts_of(member: Member, found: list[FlightEntry], clock: "_Clock") -> dict[str, Any]:
    """What PyTorch's form has no place for: failure and messages of a group."""
    failure, ranks = member.failure, member.flight.global_ranks
    messages = [_message_of(e.what, ranks, clock, e) for e in found if isinstance(e.what, Message)]
    messages += [_message_of(what, ranks, clock) for what in member.mailbox.unexpected()]
    return {"failure": None if failure is None else asdict(failure), "messages": messages}


class _Clock:
    """Monotonic seconds as nanoseconds since 1970."""

    def __init__(self) -> None:
        self.now_ns, self._now_s = time_ns(), monotonic()

    def ns(self, seconds: float) -> int | None:
        """The time; None for 0.0, which is none."""
        return self.now_ns - int((self._now_s - seconds) * 1e9) if seconds else None


def _entry_of(entry: FlightEntry, member: Member, clock: _Clock) -> dict[str, Any]:
    what = entry.what
    assert isinstance(what, Fingerprint)
    ranks = member.flight.global_ranks
    name, num_in, num_out = _sizes_of(what, entry.moved, len(ranks))
    state = "started" if entry.begun_s else "scheduled"
    if entry.ended_s and not entry.error:
        state = "completed"
    awaited = entry.awaited
    return {
        "collective_seq_id": entry.sequence,
        "p2p_seq_id": 0,
        "op_id": entry.sequence,
        "is_p2p": False,
        "profiling_name": f"{TAKEN_NAME}:{name}",
        "input_sizes": [[num_in]],
        "input_dtypes": [what.dtype],
        "output_sizes": [[num_out]],
        "output_dtypes": [what.dtype],
        "time_created_ns": clock.ns(entry.created_s),
        "time_discovered_started_ns": clock.ns(entry.begun_s),
        "time_discovered_completed_ns": clock.ns(entry.ended_s),
        "timeout_ms": int(entry.timeout_s * 1000),
        "state": state,
        "retired": bool(entry.ended_s),
        "frames": [],
        "operator": what.operator,
        "root": ranks[what.root] if what.root >= 0 else None,
        "device": what.device,
        "error": entry.error or None,
        "awaited": None
        if awaited is None
        else {
            "rank": ranks[awaited.peer] if awaited.peer not in (-1, member.rank) else None,
            "flow": awaited.flow if awaited.flow >= 0 else None,
            "step": awaited.step if awaited.step >= 0 else None,
            "since_ns": clock.ns(entry.awaited_s),
        },
    }


def _sizes_of(
    what: Fingerprint, moved: tuple[int, int] | None, num_ranks: int
) -> tuple[str, int, int]:
    """PyTorch's name of a collective, and the elements that go in and come out at one rank."""
    name, whole = what.collective, what.num_elements
    if moved is not None:
        return name, *moved
    if name not in ("reduce_scatter", "all_gather"):
        return name, whole, whole
    if whole % num_ranks:
        return f"{name}_v", whole, whole  # parts differ
    part = whole // num_ranks
    return (name, whole, part) if name == "reduce_scatter" else (name, part, whole)


def _state_of(collectives: list[FlightEntry]) -> dict[str, int]:
    """Numbers of the last collectives of a group; -1 for none."""

    def last(chosen: list[int]) -> int:
        return max(chosen, default=-1)

    return {
        "last_enqueued_collective": last([e.sequence for e in collectives]),
        "last_started_collective": last([e.sequence for e in collectives if e.begun_s]),
        "last_completed_collective": last(
            [e.sequence for e in collectives if e.ended_s and not e.error]
        ),
    }


def _message_of(
    what: Message, ranks: list[int], clock: _Clock, entry: FlightEntry | None = None
) -> dict[str, Any]:
    return {
        "kind": what.kind,
        "rank": None if what.peer is None else ranks[what.peer],
        "tag": what.tag,
        "num_bytes": what.num_bytes,
        "time_created_ns": None if entry is None else clock.ns(entry.created_s),
        "timeout_ms": None if entry is None else int(entry.timeout_s * 1000),
    }


def call_on_signal(name: str, function: Callable[[], None]) -> None:
    """Have a thread call a function whenever a signal comes, such as "SIGUSR1"; once for each.

    A warning, and nothing else, where there is no such signal, or it has a handler already.
    """
    number: Any = getattr(signal, name, None)
    if number in _CHOSEN_SIGNALS:
        return
    why = _why_not(number)
    if why:
        _LOGGER.warning("Signal %r is not used for dumps: %s", name, why)
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    arguments = (reader, number, function)
    threading.Thread(target=_serve, args=arguments, name="multitree-signals", daemon=True).start()

    def handle(number: int, frame: object) -> None:
        # The interpreter has written to the pipe already, unless another library has put its own
        # in that place since.
        if _wakeup_fd() != writer:
            with contextlib.suppress(OSError):
                os.write(writer, bytes([number]))

    def forget() -> None:
        # The pipe is that of the process that was forked.
        if signal.getsignal(number) is handle:
            signal.signal(number, signal.SIG_DFL)
            if _wakeup_fd() == writer:
                signal.set_wakeup_fd(-1)
        _CHOSEN_SIGNALS.discard(number)

    # A handler in Python waits for the main thread, which may be in C++ for ever: PyTorch's DDP
    # waits there. What the interpreter writes to a pipe comes at once.
    signal.signal(number, handle)
    if _wakeup_fd() == -1:
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _CHOSEN_SIGNALS.add(number)
    os.register_at_fork(after_in_child=forget)


def _why_not(number: object) -> str:
    """Why a signal cannot be used, or nothing."""
    if not isinstance(number, signal.Signals):
        return "there is none of that name"
    if threading.current_thread() is not threading.main_thread():
        return "only the main thread may set a handler"
    return "" if signal.getsignal(number) is signal.SIG_DFL else "it has a handler already"


def _wakeup_fd() -> int:
    """Where the interpreter writes signals; -1 for nowhere."""
    current = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(current, warn_on_full_buffer=False)
    return current


def _serve(reader: int, number: int, function: Callable[[], None]) -> None:
    while True:
        if number in os.read(reader, 4096):
            function()
