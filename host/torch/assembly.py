"""Puts one rank's end of a group together: connections, transports, engine."""

import os
import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist

from multitree.host.torch.collective import ReadyFrames, Transport
from multitree.host.torch.group import Group
from multitree.host.torch.layouts import Layouts, Planner, planner_of
from multitree.host.torch.messages import (
    LONGEST,
    BatchedMessages,
    MessageTransport,
    NcclBatches,
    PostedMessages,
)
from multitree.host.torch.options import Options
from multitree.host.torch.peers.futures import CALLBACKS
from multitree.host.torch.peers.member import Member
from multitree.host.torch.peers.memory import SharedMemory
from multitree.host.torch.peers.rendezvous import GroupTerms, Peers, connect_all
from multitree.host.torch.shared_memory import SharedMemoryTransport
from multitree.topology.algorithms.registry import SIZED
from multitree.topology.networks.topology import Topology

__all__ = ["Lanes", "assemble"]

_OPTIONS_OF_ALL_RANKS = ("engine", "transport", "reproducible")


class Lanes:
    """A group and, once callbacks of users run collectives, the same ranks once more for these.

    All ranks run callbacks in the same order, but not at the same place among what the program
    starts: in one order with that, ranks would take one collective for another.
    """

    def __init__(self, given: Any, chosen: Options) -> None:
        self._given, self._chosen = given, chosen
        self._lock = threading.Lock()
        self.outer = assemble(given, chosen)
        self.groups = [self.outer]

    def current(self) -> Group:
        """The group for what the caller starts; in a callback the first one waits for all ranks."""
        if not CALLBACKS.is_here:
            return self.outer
        with self._lock:
            if len(self.groups) == 1:
                self.groups.append(self._inner())
            return self.groups[1]

    def _inner(self) -> Group:
        given, outer = self._given, self.outer
        fields = ("group_rank", "group_size", "global_ranks_in_group", "timeout")
        named = {name: getattr(given, name) for name in fields}
        named["store"] = dist.PrefixStore("callbacks/", given.store)
        named["group_id"] = f"{given.group_id}/callbacks"
        inner = assemble(SimpleNamespace(**named), self._chosen)
        inner.member.timeout_s = outer.member.timeout_s
        inner.reports, inner.counts = outer.reports, outer.counts
        return inner

    def close(self) -> None:
        """Finish what was submitted, and leave."""
        self.outer.close()
        # What the program has submitted may have callbacks, which run collectives.
        CALLBACKS.wait()
        for inner in self.groups[1:]:
            inner.close()


def assemble(given: Any, chosen: Options) -> Group:
    """Connect to the other ranks of PyTorch's options, and start this rank's end of the group."""
    global_ranks = list(given.global_ranks_in_group) or list(range(given.group_size))
    peers = _peers_of(given, global_ranks, chosen)
    try:
        return _started(given, global_ranks, peers, chosen)
    except BaseException:
        # The others are to learn of it at once, and not when the error is forgotten here.
        for connection in peers.connections.values():
            connection.close()
        raise


def _started(given: Any, global_ranks: list[int], peers: Peers, chosen: Options) -> Group:
    is_local = chosen.transport != "gloo" and not peers.elsewhere
    if chosen.transport == "shared_memory" and peers.elsewhere:
        others = ", ".join(str(global_ranks[rank]) for rank in peers.elsewhere)
        raise ValueError(
            "Transport shared_memory must have all ranks on one host, but rank "
            f"{global_ranks[0]} shares none with ranks {others}"
        )
    member = Member(
        given.group_rank,
        global_ranks,
        given.group_id,
        peers.connections,
        given.store,
        timeout_s=given.timeout.total_seconds(),
    )
    if given.group_size == 1:
        group = Group(member, 1, None, {}, None, chosen.log)
    else:
        group = _group_of(given, member, peers, chosen, is_local=is_local)
    # Waiting for gloo or a device blocks, and so do engines: they need the helper thread.
    member.start(with_helper=not is_local or chosen.engine != "torch" or len(group.devices) > 1)
    return group


def _peers_of(given: Any, global_ranks: list[int], chosen: Options) -> Peers:
    """Connections to all other ranks, which have chosen the same."""
    options = {name: str(getattr(chosen, name)) for name in _OPTIONS_OF_ALL_RANKS}
    refusal = ""
    if chosen.engine == "rtl" and given.group_rank == 0 and given.group_size > 1:
        from multitree.host.torch.hosted import why_not_here

        refusal = why_not_here(chosen.engine)
    terms = GroupTerms(given.group_id, global_ranks, options, refusal)
    has_unix = chosen.transport != "gloo"
    return connect_all(
        given.store, given.group_rank, terms, timeout=given.timeout, has_unix=has_unix
    )


def _group_of(
    given: Any, member: Member, peers: Peers, chosen: Options, *, is_local: bool
) -> Group:
    """A group of several ranks."""
    topology = chosen.topology
    assert isinstance(topology, Topology)
    assert chosen.algorithm is not None
    layouts = Layouts(_planner_of(topology, chosen.algorithm), member.rank)
    transports = _transports_of(given, member, peers, chosen, is_local=is_local)
    hosted = None
    if chosen.engine in ("numpy", "rtl"):
        from multitree.host.torch.hosted import HostedEngine

        hosted = HostedEngine(chosen.engine, topology, member.rank, member.mailbox, member.progress)
    return Group(member, given.group_size, layouts, transports, hosted, chosen.log)


def _transports_of(
    given: Any, member: Member, peers: Peers, chosen: Options, *, is_local: bool
) -> dict[str, Transport]:
    """Transports by type of device."""
    rank, num_ranks, connections = member.rank, given.group_size, member.connections
    ready = ReadyFrames()
    member.ready = ready.add
    transports: dict[str, Transport] = {}
    if is_local:
        memory = member.mailbox.shared = SharedMemory(rank, connections)
        member.announced, member.asked = memory.take, memory.answer
        transports["cpu"] = SharedMemoryTransport(rank, connections, memory, ready)
    else:
        store = dist.PrefixStore(f"gloo/{peers.attempt}/", given.store)
        gloo = PostedMessages(_gloo(store, rank, num_ranks, given.timeout, peers.address))
        transports["cpu"] = MessageTransport(gloo, connections, member.progress, ready)
    if chosen.transport == "nccl":
        of_nccl = dist.PrefixStore(f"nccl/{peers.attempt}/", given.store)
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = LONGEST
        nccl = NcclBatches(dist.ProcessGroupNCCL(of_nccl, rank, num_ranks, options))
        transports["cuda"] = MessageTransport(
            BatchedMessages(nccl), connections, member.progress, ready
        )
    return transports


def _gloo(store: Any, rank: int, num_ranks: int, timeout: timedelta, address: str | None) -> Any:
    """A context of gloo over the interface that the connections use, or the one gloo is given."""
    interfaces = os.environ.get("GLOO_SOCKET_IFNAME")
    device = dist.ProcessGroupGloo.create_device
    options = dist.ProcessGroupGloo._Options()
    options._timeout = timeout
    options._devices = (
        [device(interface=name) for name in interfaces.split(",")]
        if interfaces
        else [device(hostname=address)]
    )
    return dist.ProcessGroupGloo(store, rank, num_ranks, options)


def _planner_of(topology: Topology, algorithm: str) -> Planner:
    """Plans by algorithm; only those that depend on the size need the models of hardware."""
    if algorithm != "auto" and algorithm not in SIZED:
        return planner_of(topology, algorithm)
    from multitree.host.torch.hosted import sized_planner

    return sized_planner(topology, algorithm)
