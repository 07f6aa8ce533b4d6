"""What wakes a command that waits: a hint that something was committed, Ctrl-C, or the time to look by itself.

Ctrl-C is kept until the command waits again. Raised at any instruction, as Python does it, it could leave a lock of the
store taken for ever, and the end of the program, which closes the store, would hang. A second Ctrl-C raises at once.

The reader of standard output, such as `head`, may end while nothing is written, and only a write would fail. So a
command that follows asks the pipe each time that it has waited.

The hints stand in a SimpleQueue and no Event: a signal handler may put into it while the same thread gets.
"""

import select
import signal
import sys
import threading
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from evertick.store.store import Store


class ChangeWaiter:
    """Notifications of a store, and Ctrl-C, while the `with` block lasts. Without a store nothing notifies.

    With `follows` the command has nothing to do but to write to standard output.
    """

    def __init__(self, store: "Store | None", *, follows: bool = False) -> None:
        self._store = store
        self._follows = follows
        self._hints: SimpleQueue[object] = SimpleQueue()
        self._is_interrupted = False
        self._former_handler: Any = None

    def __enter__(self) -> Self:
        self._unlisten = None if self._store is None else self._store.listen(self._hints.put)
        if threading.current_thread() is threading.main_thread():
            self._former_handler = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unlisten is not None:
            self._unlisten()
        if self._former_handler is not None:
            signal.signal(signal.SIGINT, self._former_handler)

    def wait(self, seconds: float) -> None:
        """Return at a hint that came since the last time, or after so many seconds.

        Raises KeyboardInterrupt if Ctrl-C was pressed since the block was entered, and BrokenPipeError where the
        command follows and the reader of standard output has ended.
        """
        try:
            self._hints.get(timeout=seconds)
            while True:  # what happened since is seen by the same look
                self._hints.get_nowait()
        except Empty:
            pass
        if self._is_interrupted:
            raise KeyboardInterrupt
        if self._follows and _reader_is_gone():
            raise BrokenPipeError

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._is_interrupted:
            raise KeyboardInterrupt
        self._is_interrupted = True
        self._hints.put(None)


def _reader_is_gone() -> bool:
    """Whether standard output is a pipe whose reader has ended."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # closed, or no file
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
