"""Ranks meet, whatever a dead attempt has left in the store, and whoever comes."""

import json
import socket
import threading
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402

from multitree.host.torch.peers import rendezvous  # noqa: E402
from multitree.host.torch.peers.frames import Frame, FrameKind  # noqa: E402
from multitree.host.torch.peers.greetings import Place, send_message  # noqa: E402
from multitree.host.torch.peers.rendezvous import GroupTerms, connect_all  # noqa: E402

KEY = "address/0"


def terms_of(num_ranks, name="dp", first=0, **options):
    """Ranks of a group begin in the default group with another one than 0."""
    return GroupTerms(name, list(range(first, first + num_ranks)), options)


class Ranks:
    """Ranks that are threads; what each was given, or has raised."""

    def __init__(self, store, terms, timeout_s=20, **how):
        self.store, self.terms, self.results = store, terms, {}
        self.how = {"timeout": timedelta(seconds=timeout_s), "has_unix": True} | how
        self.threads = []

    def start(self, *ranks, terms=None):
        for rank in ranks:
            self.threads.append(threading.Thread(target=self.run, args=(rank, terms)))
            self.threads[-1].start()
        return self

    def run(self, rank, terms):
        try:
            self.results[rank] = connect_all(self.store, rank, terms or self.terms, **self.how)
        except Exception as error:
            self.results[rank] = error

    def end(self):
        """Results by rank."""
        for thread in self.threads:
            thread.join(60)
        return [self.results[rank] for rank in sorted(self.results)]


def close(results):
    for peers in results:
        for connection in peers.connections.values():
            connection.close()


def check_connected(results):
    """Every rank is connected with the same attempt of each other one; then all is closed."""
    for result in results:
        assert not isinstance(result, Exception), result
    assert len({peers.attempt for peers in results}) == 1
    for rank, peers in enumerate(results):
        assert sorted(peers.connections) == [r for r in range(len(results)) if r != rank]
        for connection in peers.connections.values():
            connection.send(Frame(FrameKind.AWAIT, sequence=rank))
    for peers in results:
        for peer, connection in peers.connections.items():
            connection._stream.settimeout(10)
            frame, _ = next(connection.receive(None))
            assert frame.sequence == peer
    close(results)


@pytest.mark.parametrize("has_unix", [True, False])
@pytest.mark.parametrize("num_ranks", [1, 2, 5])
def test_all_ranks_meet(num_ranks, has_unix):
    ranks = Ranks(dist.HashStore(), terms_of(num_ranks), has_unix=has_unix)
    results = ranks.start(*range(num_ranks)).end()
    of_tcp = num_ranks > 1 and not has_unix
    assert {peers.address is not None for peers in results} == {of_tcp}
    assert results[-1].elsewhere == ([*range(1, num_ranks)] if of_tcp else [])
    check_connected(results)


def test_groups_that_begin_again_over_one_store_never_mix():
    store, num_turns, attempts = dist.HashStore(), 25, []

    def program(rank):
        for turn in range(num_turns):
            peers = connect_all(
                store,
                (rank + turn) % 3,  # the first rank is another process each time
                terms_of(3),
                timeout=timedelta(seconds=20),
                has_unix=True,
            )
            attempts.append((turn, peers.attempt))
            for connection in peers.connections.values():
                connection.close()

    threads = [threading.Thread(target=program, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(attempts) == 3 * num_turns and len({*attempts}) == num_turns


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_the_failure_of_an_attempt_before_is_not_taken_for_one_of_this_group(num_ranks, tmp_path):
    for store in (dist.HashStore(), dist.FileStore(str(tmp_path / "store"), num_ranks)):
        store.set("failure", "{}")
        check_connected(Ranks(store, terms_of(num_ranks)).start(*range(num_ranks)).end())
        assert not store.check(["failure"])


def test_ranks_meet_over_a_store_that_deletes_nothing():
    def refuse(key):
        raise RuntimeError("Tried to call pure virtual function")

    kept = dist.HashStore()
    store = SimpleNamespace(set=kept.set, get=kept.get, wait=kept.wait, delete_key=refuse)
    check_connected(Ranks(store, terms_of(2)).start(0, 1).end())


def silent(stream):
    """A process that has the port by now, and says nothing."""


def hang_up(stream):
    stream.close()


def echo(stream):
    stream.sendall(stream.recv(1 << 16))


def garbage(stream):
    stream.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")


def other_protocol(stream):
    send_message(stream, {"hello": "world"})


def listen(serve):
    """A listening socket whose visitors are served."""
    listener, visitors = socket.create_server(("127.0.0.1", 0)), []

    def run():
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            visitors.append(stream)
            with suppress(OSError):
                serve(stream)

    threading.Thread(target=run, daemon=True).start()
    return listener


@pytest.mark.parametrize("serve", [None, silent, hang_up, echo, garbage, other_protocol])
def test_the_address_of_a_dead_attempt_is_read_again_until_it_changes(serve):
    listener = listen(serve or hang_up)
    port = listener.getsockname()[1]
    if serve is None:
        listener.close()
        listener = socket.socket()
    store = dist.HashStore()
    store.set(KEY, Place("0" * 32, "multitree-of-a-dead-process", "127.0.0.1", port).packed())
    ranks = Ranks(store, terms_of(3)).start(1, 2)
    threading.Event().wait(0.3)
    with listener:
        check_connected(ranks.start(0).end())


def place_in(store):
    store.wait([KEY], timedelta(seconds=10))
    return Place.unpacked(store.get(KEY).decode())


def greet(store, terms, rank, place, **other):
    """A rank that has come to the first one; its connection."""
    there = place_in(store)
    stream = socket.create_connection((there.host, there.port), 10)
    group = [terms.name, terms.global_ranks]
    greeting = {"token": there.token, "rank": rank, "group": group, "options": {}, "place": place}
    send_message(stream, greeting | other)
    return stream


def test_a_rank_that_was_lost_is_awaited_again():
    ranks = Ranks(dist.HashStore(), terms_of(3)).start(0)
    greet(ranks.store, ranks.terms, 2, unreachable()).close()
    # That of a host that was switched off is there for good.
    with greet(ranks.store, ranks.terms, 2, unreachable()) as left_behind:
        ranks.start(2)
        left_behind.settimeout(20)
        assert left_behind.recv(1) == b""  # another one has taken its place
        check_connected(ranks.start(1).end())


@pytest.mark.parametrize(
    "says", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2[]", b"\0\0\0\2{}", b"\0\0\0\7no json"]
)
def test_strangers_hold_up_no_rank(says):
    ranks = Ranks(dist.HashStore(), terms_of(2), has_unix=False).start(0)
    there = place_in(ranks.store)
    strangers = [socket.create_connection((there.host, there.port), 10) for _ in range(5)]
    for stranger in strangers:
        stranger.sendall(says)
    check_connected(ranks.start(1).end())
    for stranger in strangers:
        stranger.close()


def test_a_rank_with_the_token_of_another_group_is_not_taken():
    store = dist.HashStore()
    ranks = Ranks(store, terms_of(2), timeout_s=0.5).start(0)
    ranks.start(1, terms=terms_of(2, first=7))
    first, other = ranks.end()
    assert isinstance(first, TimeoutError) and "other connections" in str(first)
    assert isinstance(other, TimeoutError)
    assert "Rank 7 must come to group 'dp' within 0.5 s" in str(other)
    assert "group 'dp' there has ranks [0, 1]" in str(other)


def test_ranks_that_do_not_come_are_named_at_all_that_do():
    ranks = Ranks(dist.HashStore(), terms_of(5, first=10), timeout_s=0.5)
    for error in ranks.start(0, 2, 3).end():
        assert isinstance(error, TimeoutError)
        assert str(error).startswith("Ranks 11, 14 must come to group 'dp' within 0.5 s")


def test_a_rank_whose_time_is_over_before_that_of_the_first_one_learns_whom_that_awaits():
    store = dist.HashStore()
    first = Ranks(store, terms_of(3), timeout_s=3).start(0)
    (error,) = Ranks(store, terms_of(3), timeout_s=0.5).start(1).end()
    assert isinstance(error, TimeoutError) and "Rank 2 must come" in str(error)
    (error,) = first.end()
    assert "Rank 2 must come" in str(error)  # not the one that gave up


def test_a_first_rank_that_does_not_come_is_named_with_what_was_tried():
    store = dist.HashStore()
    (error,) = Ranks(store, terms_of(2), timeout_s=0.3).start(1).end()
    says = "Rank 0 must come to group 'dp' within 0.3 s, but did not"
    assert str(error) == f"{says}; {KEY!r} is not in the store"
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    store.set(KEY, Place("0" * 32, "", "127.0.0.1", port).packed())
    (error,) = Ranks(store, terms_of(2), timeout_s=0.3).start(1).end()
    assert isinstance(error, TimeoutError)
    assert str(error).startswith(f"{says}; 127.0.0.1 port {port}: ") and "refused" in str(error)


def test_a_first_rank_that_says_nothing_is_named():
    store, listener = dist.HashStore(), listen(silent)
    store.set(KEY, Place("0" * 32, "", "127.0.0.1", listener.getsockname()[1]).packed())
    (error,) = Ranks(store, terms_of(2), timeout_s=0.3).start(1).end()
    listener.close()
    assert str(error) == "Rank 0 must come to group 'dp' within 0.3 s, but does not answer"


def test_ranks_with_different_options_all_learn_which():
    ranks = Ranks(dist.HashStore(), None)
    for rank, transport in enumerate(["auto", "auto", "gloo"]):
        ranks.start(rank, terms=terms_of(3, transport=transport))
    for error in ranks.end():
        assert isinstance(error, ValueError)
        assert "agree on transport, which is 'gloo' at rank 2 and 'auto' at rank 0" in str(error)


def unreachable():
    """A place where nothing listens any more."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return ["0" * 32, "", "127.0.0.1", unused.getsockname()[1]]


def test_a_rank_that_is_lost_after_all_have_come_is_named(monkeypatch):
    monkeypatch.setattr(rendezvous, "_MESH_S", 2)
    ranks = Ranks(dist.HashStore(), terms_of(4)).start(0)
    lost = [greet(ranks.store, ranks.terms, rank, unreachable()) for rank in (1, 3)]
    first, error = ranks.start(2).end()
    assert isinstance(error, ConnectionError) and not isinstance(first, Exception)
    assert "Rank 1 must be reachable for rank 2 at 127.0.0.1 port" in str(error)
    close([first])
    with listen(silent) as listener:
        port = listener.getsockname()[1]
        for place, kind, says in (
            (unreachable(), ConnectionError, "not: nothing listens there any more"),
            (["0" * 32, "", "127.0.0.1", port], TimeoutError, "within 2 s once all have come"),
        ):
            ranks = Ranks(dist.HashStore(), terms_of(3)).start(0, 1)
            lost.append(greet(ranks.store, ranks.terms, 2, place))
            first, error = ranks.end()
            assert isinstance(error, kind) and says in str(error)
            assert "Rank 2 must connect to rank 1" in str(error)
            close([first])
    for stream in lost:
        stream.close()


def test_a_store_that_is_lost_is_named():
    def lost(*arguments):
        raise RuntimeError("Connection reset by peer")

    store = SimpleNamespace(wait=lost, set=lost, get=lost)
    (error,) = Ranks(store, terms_of(2)).start(1).end()
    assert isinstance(error, ConnectionError)
    assert str(error).startswith("Store of group 'dp' must be reachable, but is not: Connection")


def test_the_place_is_json():
    assert json.loads(Place("token", "name", "::1", 5).packed()) == ["token", "name", "::1", 5]
