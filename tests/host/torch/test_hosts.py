"""Ranks of two hosts meet by the addresses that the master's one leads to."""

import os
import socket
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402

from multitree.host.torch.peers import addresses  # noqa: E402
from multitree.host.torch.peers.addresses import own_address  # noqa: E402
from multitree.torch import group_of  # noqa: E402
from tests.host.torch.namespaces import NAMES, enter, two_hosts  # noqa: E402
from tests.host.torch.ranks import RankError, run_ranks  # noqa: E402

__all__ = ["two_hosts"]  # a fixture

NUM_RANKS = 3  # of which the last two are on one host


def join(rank, spaces, names, given, path):
    """Init as a program of that host would; the file is for want of a master."""
    host = 0 if rank == 0 else 1
    enter(spaces[host], NAMES[host], names[host])
    os.environ.update({"MASTER_PORT": "29571", **given})
    place = {"rank": rank, "world_size": NUM_RANKS, "timeout": timedelta(seconds=30)}
    if "MASTER_ADDR" not in given and "init_method" not in given:
        place["store"] = dist.FileStore(path, NUM_RANKS)
    dist.init_process_group("multitree", **place)


def all_reduce(rank, num_ranks, *how):
    """The sum, the transport, and the address at which each other rank was reached, or reached."""
    join(rank, *how)
    ones = torch.ones(1000)
    dist.all_reduce(ones)
    group = group_of().group
    ends = {}
    for peer, connection in group.member.connections.items():
        stream = connection._stream
        is_unix = stream.family == socket.AF_UNIX
        ends[peer] = "unix" if is_unix else stream.getsockname()[0].removeprefix("::ffff:")
    dist.barrier()  # so that none has left before others have looked
    return ones.tolist() == [num_ranks] * 1000, group.reports[-1].transport, ends


NO_NAMES = ("", "")
# As Debian writes it: a host's own name is a loopback address, which others do not know it by.
DEBIAN = ("127.0.1.1 hosta\n10.77.0.2 hostb\n", "10.77.0.1 hosta\n127.0.1.1 hostb\n")
CASES = {
    "IPv4": ({"MASTER_ADDR": "10.77.0.1"}, NO_NAMES, "10.77.0."),
    "IPv6": ({"MASTER_ADDR": "fd77::1"}, NO_NAMES, "fd77::"),
    "names of loopback addresses": ({"MASTER_ADDR": "hosta"}, DEBIAN, "10.77.0."),
    "an interface": (
        {"MASTER_ADDR": "10.77.0.1", "GLOO_SOCKET_IFNAME": "other"},
        NO_NAMES,
        "10.78.0.",
    ),
    "no master": ({}, DEBIAN, "10.77.0."),
}


@pytest.mark.parametrize("case", CASES)
def test_ranks_of_two_hosts_meet(two_hosts, case, tmp_path):
    given, names, prefix = CASES[case]
    results = run_ranks(
        all_reduce, NUM_RANKS, two_hosts, names, given, str(tmp_path / "store"), backend=None
    )
    for is_right, transport, _ in results:
        assert is_right and transport == "gloo"
    ends = [ends for *_, ends in results]
    assert ends[0] == {1: f"{prefix}1", 2: f"{prefix}1"}
    # Ranks of one host use sockets of that host among each other.
    assert ends[1] == {0: f"{prefix}2", 2: "unix"} and ends[2] == {0: f"{prefix}2", 1: "unix"}


def test_an_address_of_the_host_is_taken_as_given(two_hosts, tmp_path):
    given = {"MASTER_ADDR": "10.77.0.1", "MULTITREE_HOST_ADDRESS": "10.78.0.1"}
    path = str(tmp_path / "store")
    (_, _, ends), *_ = run_ranks(all_reduce, 3, two_hosts, NO_NAMES, given, path, backend=None)
    assert ends == {1: "10.78.0.1", 2: "10.78.0.1"}


def test_shared_memory_over_two_hosts_is_refused_at_every_rank(two_hosts, tmp_path):
    given = {"MASTER_ADDR": "10.77.0.1", "MULTITREE_TRANSPORT": "shared_memory"}
    path = str(tmp_path / "store")
    with pytest.raises(RankError) as caught:
        run_ranks(all_reduce, 3, two_hosts, NO_NAMES, given, path, backend=None)
    says = "must have all ranks on one host, but rank 0 shares none with ranks 1, 2"
    assert str(caught.value).count(says) == 3


# The rule, without hosts.


@pytest.fixture
def routes(monkeypatch):
    """This host's addresses on the way to others, by their names."""
    for name in ("MULTITREE_HOST_ADDRESS", "GLOO_SOCKET_IFNAME", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "here")
    known = {}
    monkeypatch.setattr(addresses, "_route_to", known.get)
    return known


@pytest.mark.parametrize(
    ("master", "route", "expected"),
    [
        ("10.0.0.1", "10.0.0.2", "10.0.0.2"),
        ("[fd00::1]", "fd00::2", "fd00::2"),
        ("here", "127.0.1.1", "here"),
        ("localhost", "127.0.0.1", "localhost"),
        ("::1", "::1", "::1"),
        ("unknown", None, "10.0.0.9"),
    ],
)
def test_the_address_is_that_of_the_route_to_the_master(
    routes, monkeypatch, master, route, expected
):
    routes |= {"here": "10.0.0.9", master.strip("[]"): route}
    monkeypatch.setenv("MASTER_ADDR", master)
    assert own_address(None) == expected


def test_a_store_on_a_host_stands_for_the_master(routes):
    store = dist.TCPStore("localhost", 0, 1, True)
    routes["localhost"] = "10.0.0.2"
    assert own_address(dist.PrefixStore("a", dist.PrefixStore("b", store))) == "10.0.0.2"


def test_without_a_master_it_is_the_host_s_own_or_that_of_any_route(routes):
    assert own_address(dist.HashStore()) == "localhost"
    routes["2001:db8::1"] = "fd00::9"
    assert own_address(dist.HashStore()) == "fd00::9"
    routes["here"] = "127.0.1.1"
    assert own_address(dist.HashStore()) == "fd00::9"
    routes["here"] = "10.0.0.9"
    assert own_address(dist.HashStore()) == "10.0.0.9"


def test_what_is_given_comes_first(routes, monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo,eth0")
    assert own_address(None) == "127.0.0.1"
    monkeypatch.setenv("MULTITREE_HOST_ADDRESS", "[fd00::5]")
    assert own_address(None) == "fd00::5"


def test_an_interface_of_ipv6_alone(monkeypatch, tmp_path):
    table = tmp_path / "if_inet6"
    table.write_text(
        "fe8000000000000000fc00fffe000001 04 40 20 80     ib9\n"
        "fd000000000000000000000000000002 04 40 00 82     ib9\n"
    )
    monkeypatch.setattr(addresses, "_IPV6_INTERFACES", str(table))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib9")
    assert own_address(None) == "fd00::2"


def test_an_interface_that_is_not_there_is_refused_with_those_that_are(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nosuch")
    with pytest.raises(ValueError, match=r"GLOO_SOCKET_IFNAME must name .* lo.*, not 'nosuch'"):
        own_address(None)


def test_a_route_is_found_without_sending():
    assert addresses._route_to("127.0.0.1") == "127.0.0.1"
    assert addresses._route_to("no such host") is None
