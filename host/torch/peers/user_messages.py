"""Messages of users: their time-outs, and the errors that they end with."""

from collections.abc import Callable
from time import monotonic

from multitree.host.torch.peers.failures import CollectiveError, Watch
from multitree.host.torch.peers.handles import Handle
from multitree.host.torch.peers.mailbox import USERS, Mailbox, Receive
from multitree.host.torch.peers.progress import Progress, Steps, Task, Waiting

__all__ = ["UserMessages"]


class UserMessages:
    """Sends and receives of users, each of which fails alone; used by the thread of the group."""

    def __init__(self, mailbox: Mailbox, watch: Watch, progress: Progress) -> None:
        self._mailbox, self._watch, self._progress = mailbox, watch, progress

    def receive_of(
        self, source: int | None, tag: int, memory: memoryview, handle: Handle
    ) -> Receive:
        """A receive that ends a handle; any thread may make it."""

        def done(error: Exception | None) -> None:
            named = -1 if made.source is None else made.source
            handle.finish(self._named(error, named), source=named)

        made = Receive(source, USERS, tag, memory, done)
        return made

    def send(
        self, peer: int, tag: int, memory: memoryview, handle: Handle, timeout_s: float
    ) -> None:
        """Send a message; it is withdrawn where it is not taken in time."""
        if self._watch.failure is not None:
            handle.finish(CollectiveError(self._watch.failure))
            return

        def done(error: Exception | None) -> None:
            handle.finish(self._named(error, peer))

        self._mailbox.send(peer, USERS, tag, memory, done)

        def late(task: Task) -> None:
            self._mailbox.withdraw_send(peer, done)
            handle.finish(
                RuntimeError(
                    f"Send to rank {self._watch.global_rank(peer)} with tag {tag} must end within "
                    f"{timeout_s} s, but was not taken: timed out"
                )
            )

        self._until_done(handle, Waiting(peer), timeout_s, late)

    def post(self, post: Receive, handle: Handle, timeout_s: float) -> None:
        """Post a receive; it is withdrawn where no message comes in time."""
        if self._watch.failure is not None:
            handle.finish(CollectiveError(self._watch.failure))
            return
        self._mailbox.receive(post)

        def late(task: Task) -> None:
            self._mailbox.withdraw(post)
            source = post.source
            whom = "any rank" if source is None else f"rank {self._watch.global_rank(source)}"
            handle.finish(
                RuntimeError(
                    f"Receive from {whom} with tag {post.tag} must end within {timeout_s} s, "
                    "but no message came: timed out"
                )
            )

        source = -1 if post.source is None else post.source
        self._until_done(handle, Waiting(source), timeout_s, late)

    def _named(self, error: Exception | None, peer: int) -> Exception | None:
        """An error of a connection as the failure of the rank at its other end."""
        if not isinstance(error, OSError):
            return error
        if peer < 0:
            return RuntimeError("Some rank must be there to send, but all have left the group")
        return CollectiveError(
            self._watch.record(self._watch.ended.get(peer, "left"), Waiting(peer))
        )

    def _until_done(
        self, handle: Handle, waiting: Waiting, timeout_s: float, late: Callable[[Task], None]
    ) -> None:
        """Watch the time of a message."""

        def steps() -> Steps[None]:
            while not handle.is_completed():
                yield waiting

        if not handle.is_completed():
            deadline = monotonic() + timeout_s
            task = Task(steps(), lambda error: None, deadline=deadline, when_late=late)
            self._progress.spawn(task)
