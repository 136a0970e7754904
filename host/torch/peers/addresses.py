"""Addresses by which the ranks of other hosts reach this one."""

import fcntl
import os
import socket
import struct
from functools import cache
from typing import Any

from multitree.topology.environment import variable

__all__ = ["listening_socket", "local_address", "own_address"]

_SIOCGIFADDR = 0x8915  # of Linux: the IPv4 address of an interface
_IPV6_INTERFACES = "/proc/net/if_inet6"
_GLOBAL_SCOPE = "00"
# Addresses for documentation, which no host has: routes to them are those to anywhere.
_ANYWHERE = ("192.0.2.1", "2001:db8::1")


def own_address(store: Any) -> str:
    """Address or name of this host: as given, of gloo's interface, or of the route to the master.

    ValueError if GLOO_SOCKET_IFNAME names no interface with an address.
    """
    given = variable("MULTITREE_HOST_ADDRESS")
    if given:
        return given.strip("[]")
    interfaces = os.environ.get("GLOO_SOCKET_IFNAME")
    if interfaces:
        return _interface_address(interfaces.split(",")[0])
    master = (os.environ.get("MASTER_ADDR") or _host_of(store)).strip("[]")
    address = _route_to(master) if master else None
    if address is not None:
        # On the master's own host its name may mean the host itself: others know what it means.
        return master if _is_loopback(address) else address
    for name in (socket.gethostname(), *_ANYWHERE):
        address = _route_to(name)
        if address is not None and not _is_loopback(address):
            return address
    return "localhost"


def listening_socket(backlog: int) -> socket.socket:
    """A TCP socket that listens on a free port, of all addresses of this host."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", 0), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True
            )
        except OSError:
            pass  # IPv6 is known, but switched off
    return socket.create_server(("", 0), backlog=backlog)


def local_address(stream: socket.socket) -> str:
    """This host's address in a TCP connection."""
    # A socket of both versions has IPv4 addresses in the form of IPv6.
    address = str(stream.getsockname()[0])
    return address.removeprefix("::ffff:") if "." in address else address


def _host_of(store: Any) -> str:
    """Name of the host of a TCPStore behind any number of prefixes; empty for other stores."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return str(getattr(store, "host", ""))


@cache
def _route_to(name: str) -> str | None:
    """This host's address on the route to another one; None if there is no route, or no host."""
    try:
        found = socket.getaddrinfo(name, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, _, _, address in found:
        # Connecting a datagram socket sends nothing, and finds the route.
        try:
            with socket.socket(family, kind) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _interface_address(name: str) -> str:
    """The IPv4 address of an interface, or else its first global IPv6 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            request = struct.pack("256s", name.encode()[:15])
            found = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, request)
            return socket.inet_ntoa(found[20:24])
        except OSError:
            pass
    try:
        with open(_IPV6_INTERFACES) as file:
            rows = [line.split() for line in file]
    except OSError:
        rows = []
    for packed, _, _, scope, _, interface in rows:
        if interface == name and scope == _GLOBAL_SCOPE:
            return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(packed))
    known = ", ".join(interface for _, interface in socket.if_nameindex())
    raise ValueError(
        f"GLOO_SOCKET_IFNAME must name an interface with an address, one of {known}, not {name!r}"
    )
