"""Makes one rank's end of a group, finds it, and gives it back in the end."""

import atexit
import multiprocessing.util
import os
import threading
import weakref
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as C10dBackend

from multitree.host.torch import BACKEND
from multitree.host.torch.assembly import Lanes
from multitree.host.torch.dump import dump_when_failed
from multitree.host.torch.options import options_of, refusing
from multitree.host.torch.peers.frames import DEVICES
from multitree.host.torch.process_group import Collectives

__all__ = ["MultiTreeBackend", "MultiTreeProcessGroup", "create_group", "ddp_hook", "group_of"]

# A group that is referred to no more ends by itself.
_GROUPS: weakref.WeakValueDictionary[str, "_ProcessGroup"] = weakref.WeakValueDictionary()


class _ProcessGroup(Collectives):
    """What both forms of a group have."""

    def _begin(self, lanes: Lanes, store: Any, *, is_invariant: bool) -> None:
        self._lanes, self._store, self._is_invariant = lanes, store, is_invariant
        self._name, self._description = self.group.member.group, ""
        _GROUPS[self._name] = self
        dump_when_failed(self)
        self._dropped = weakref.finalize(self, _drop, lanes)
        self._dropped.atexit = False

    def check_devices(self) -> None:
        """Raise where PyTorch would use this backend for devices that the user gave to others."""

    def shutdown(self) -> None:
        """Finish what was submitted, and leave the group."""
        self._dropped.detach()
        super().shutdown()
        if _GROUPS.get(self.group.member.group) is self:
            del _GROUPS[self.group.member.group]

    def getBackendName(self) -> str:  # noqa: N802 - PyTorch's name
        """Name of the backend."""
        return BACKEND

    def _get_backend_name(self) -> str:
        return BACKEND

    def name(self) -> str:
        """Name of the backend."""
        return BACKEND

    # What PyTorch asks a backend for before it uses it, in releases up to 2.15: none is there.
    supports_splitting = False  # groups are made anew, not split off
    supports_coalescing = False  # messages need no batches
    supports_time_estimate = False  # `multitree.estimate` has estimates
    supports_shrinking = False
    supports_reconfigure = False
    supports_window = False

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Whether it has memory of its own for users' tensors."""
        return False

    def _set_sequence_number_for_group(self) -> None:
        """Collectives are numbered from 0 at all ranks."""

    def _get_sequence_number_for_group(self) -> int:
        return self.group.member.num_submitted

    def __repr__(self) -> str:
        """Rank and size."""
        return f"{type(self).__name__}(rank={self.group.rank}, size={self.group.num_ranks})"


class MultiTreeBackend(_ProcessGroup, C10dBackend):
    """Our part of a process group with other backends for other devices, from PyTorch 2.15 on.

    PyTorch wraps the handles of such a backend, so that they do not tell whether they are completed
    or from which rank a message came: only a process group of its own is whole.
    """

    def __init__(self, lanes: Lanes, store: Any, *, is_invariant: bool) -> None:
        C10dBackend.__init__(self, lanes.outer.rank, lanes.outer.num_ranks)
        self._begin(lanes, store, is_invariant=is_invariant)


class MultiTreeProcessGroup(_ProcessGroup, dist.ProcessGroup):
    """A process group in Python, whose methods PyTorch calls with nothing between."""

    def __init__(self, lanes: Lanes, store: Any, *, is_invariant: bool) -> None:
        dist.ProcessGroup.__init__(self, lanes.outer.rank, lanes.outer.num_ranks)
        self._begin(lanes, store, is_invariant=is_invariant)
        self._is_checked = False

    def check_devices(self) -> None:
        """Raise where PyTorch would use this backend for devices that the user gave to others.

        It puts a process group in Python in the place of the backends of all devices, and registers
        which they are once the group is made: they are looked at when it is first used.
        """
        if self._is_checked:
            return
        backends = dist.distributed_c10d._world.pg_backend_config.get(self, BACKEND)
        if {pair.rpartition(":")[2] for pair in backends.split(",")} != {BACKEND}:
            with refusing(self._store, self.group.rank, self.group.num_ranks):
                raise ValueError(
                    f"Backend must be {BACKEND} for all devices with PyTorch {torch.__version__}, "
                    f"not {backends!r}: it would be used for all of them"
                )
        self._is_checked = True

    def attach(self, backend: MultiTreeBackend) -> None:
        """Register a backend, which parts of PyTorch since 2.15 ask every process group for."""
        self._inner = backend
        kind = dist.ProcessGroup.BackendType.CUSTOM
        self._set_default_backend(kind)
        for device in DEVICES:
            self._register_backend(torch.device(device), kind, backend)

    @property
    def group_name(self) -> str:
        """Name of the group."""
        return self._name

    def getGroupName(self) -> str:  # noqa: N802
        """Name of the group, for PyTorch's C++."""
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    setGroupName = _set_group_name  # noqa: N815

    @property
    def group_desc(self) -> str:
        """Description of the group."""
        return self._description

    def getGroupDesc(self) -> str:  # noqa: N802
        """Description of the group, for PyTorch's C++."""
        return self._description

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    setGroupDesc = _set_group_desc  # noqa: N815

    def get_group_store(self) -> Any:
        """The store of this group."""
        return self._store

    def _get_backend(self, device: torch.device) -> "MultiTreeProcessGroup":
        """The group serves every device by itself."""
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(name) for name in DEVICES]

    def _start_coalescing(self, device: torch.device) -> None:
        """Refuse what `supports_coalescing` denies before anything has begun."""
        raise RuntimeError(
            f"Backend {BACKEND} must be used without a device in a coalescing manager, not {device}"
        )


def group_of(process_group: Any = None) -> Collectives:
    """This backend's part of a process group: its reports, counts and failure.

    Parameters
    ----------
    process_group : ProcessGroup, optional
        The default group without it.

    Returns
    -------
    Collectives

    Raises
    ------
    TypeError
        If the group is of another backend.
    """
    chosen = dist.group.WORLD if process_group is None else process_group
    if isinstance(chosen, Collectives):
        return chosen
    ours = None if chosen is None else _GROUPS.get(chosen.group_name)
    if ours is None:
        name = None if chosen is None else dist.get_backend(chosen)
        raise TypeError(f"Group must be of backend {BACKEND}, not {name}")
    return ours


def create_group(given: Any, options: object) -> _ProcessGroup:
    """Make this rank's end of a group of PyTorch's options; all ranks of the group call it.

    TypeError, ValueError, TopologyError or ScheduleError if our options do not fit or the first
    rank cannot run the engine, TimeoutError if a rank does not come, ConnectionError if one is
    lost; where nothing catches it, the program ends with one line of the first rank.
    """
    with refusing(given.store, given.group_rank, given.group_size):
        return _created(given, options)


def _created(given: Any, options: object) -> _ProcessGroup:
    is_default = not given.global_ranks_in_group
    chosen = options_of(options, given.group_size, is_default_group=is_default)
    is_invariant = chosen.reproducible == "invariant"
    arguments = Lanes(given, chosen), given.store
    if _has_other_backends(given):
        return MultiTreeBackend(*arguments, is_invariant=is_invariant)
    made = MultiTreeProcessGroup(*arguments, is_invariant=is_invariant)
    if hasattr(given, "process_group"):
        made.attach(MultiTreeBackend(*arguments, is_invariant=is_invariant))
        _GROUPS[made.group_name] = made
    return made


def _has_other_backends(given: Any) -> bool:
    """Whether a group has backends of other devices, as far as the creator of one can know."""
    # Since 2.14 a creator is given the group, with the backends that were made before and the type
    # of the one that barriers use. What it does not show is found out at the first collective.
    whole = getattr(given, "process_group", None)
    return whole is not None and (bool(whole._device_types) or whole.name() != "custom")


def _drop(lanes: Lanes) -> None:
    """End a group that is referred to no more, once what was submitted has ended."""
    # Whoever drops it does not wait, and a thread cannot be started while the process ends.
    with suppress(RuntimeError):
        threading.Thread(target=lanes.close, daemon=True).start()


def _leave_all() -> None:
    """Say goodbye for every group that still is there; what is under way is lost."""
    groups = list(_GROUPS.values())
    for member in [member for group in groups for member in group.members]:
        member.leave(at_once=True)
    for group in groups:
        group.shutdown()


def _forget_all() -> None:
    """In a forked process: groups are those of the process that made them."""
    # Copies of sockets, as in a worker that loads data, would keep a dead rank's connections open.
    for member in [member for group in list(_GROUPS.values()) for member in group.members]:
        for connection in member.connections.values():
            connection.close_copy()
    _GROUPS.clear()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_leave_all)
# Processes of multiprocessing end without calling what is registered at exit.
multiprocessing.util.Finalize(None, _leave_all, exitpriority=100)


def ddp_hook(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of gradients over a group of this backend.

    For models whose default group is of another backend::

        group = torch.distributed.new_group(backend="multitree")
        model.register_comm_hook(group, multitree.torch.ddp_hook)

    Parameters
    ----------
    group : ProcessGroup or None
        One of this backend; None for the default group.
    bucket : torch.distributed.GradBucket

    Returns
    -------
    torch.futures.Future
        Of the averaged bucket.

    Raises
    ------
    TypeError
        If the group is of another backend.

    Notes
    -----
    Gradients are multiplied by 1 / num_ranks and then summed, as without a hook, so that the bits
    are those of a default group of this backend.
    """
    chosen = group_of(group)
    buffer = bucket.buffer()
    buffer.mul_(1.0 / chosen.group.num_ranks)
    future = chosen.allreduce([buffer]).get_future()
    return future.then(lambda done: done.value()[0])
