"""Hosts for tests: network namespaces of this machine, joined by interfaces."""

import ctypes
import os
import socket
import subprocess
import tempfile

import pytest

__all__ = ["NAMES", "enter", "two_hosts"]

NAMES = ("hosta", "hostb")
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWNET = 0x20000, 0x4000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 1 << 18


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def two_hosts():
    """Two namespaces, by name: addresses 10.77.0.x and fd77::x on `wire`, 10.78.0.x on `other`."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces must be made by root")
    spaces = [f"mt-{os.getpid()}-{name}" for name in NAMES]
    try:
        for space in spaces:
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        for number, wire in enumerate(("wire", "other")):
            there = {"name": wire, "netns": spaces[1]}
            peer = [word for pair in there.items() for word in pair]
            ip("-n", spaces[0], "link", "add", wire, "type", "veth", "peer", *peer)
            for host, space in enumerate(spaces, 1):
                ip("-n", space, "address", "add", f"10.{77 + number}.0.{host}/24", "dev", wire)
                ip("-n", space, "link", "set", wire, "up")
        for host, space in enumerate(spaces, 1):
            ip("-n", space, "address", "add", f"fd77::{host}/64", "dev", "wire", "nodad")
            ip("-n", space, "route", "add", "default", "dev", "wire")
        yield spaces
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)


def enter(space, name, names):
    """Move this process to a namespace, under a host name, and with names in its /etc/hosts."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(function, *arguments):
        if function(*arguments):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    with open(f"/run/netns/{space}") as file:
        call(libc.setns, file.fileno(), _CLONE_NEWNET)
    call(libc.unshare, _CLONE_NEWNS | _CLONE_NEWUTS)
    call(libc.mount, None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    # No server of names is reached from here, and PyTorch would wait for one.
    texts = {"hosts": "127.0.0.1 localhost\n" + names, "resolv.conf": "nameserver 127.0.0.1\n"}
    for file, text in texts.items():
        with tempfile.NamedTemporaryFile("w") as other:
            other.write(text)
            other.flush()
            call(libc.mount, other.name.encode(), f"/etc/{file}".encode(), None, _MS_BIND, None)
    socket.sethostname(name)
