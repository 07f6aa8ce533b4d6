"""What wakes a command that waits: a hint that something was committed, or the time to look by itself.

It is a SimpleQueue and no Event: Ctrl-C in the moment in which an Event takes its lock leaves it locked for ever, and
the thread that brings the next hint, and with it the end of the program, would hang.
"""

from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

from evertick.store.contract.store import Store


class ChangeWaiter:
    """Notifications of a store, while the `with` block lasts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hints: SimpleQueue[object] = SimpleQueue()

    def __enter__(self) -> Self:
        self._unlisten = self._store.listen(self._hints.put)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unlisten()

    def wait(self, seconds: float) -> None:
        """Return at a hint that came since the last time, or after so many seconds."""
        try:
            self._hints.get(timeout=seconds)
            while True:  # what happened since is seen by the same look
                self._hints.get_nowait()
        except Empty:
            return
