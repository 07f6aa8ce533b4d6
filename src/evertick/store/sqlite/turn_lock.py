"""The order in which the threads of a process write a SQLite database."""

import threading
from collections import deque


class TurnLock:
    """A lock for one thread at a time, given to those who wait in the order in which they came. Not reentrant.

    Python's own lock goes to the first thread that asks once it is free, mostly the one that has just released it. So
    one that writes without a pause, such as the thousands of calls that an action has gathered, would keep others away.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_held = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout_s: float) -> bool:
        """Wait for one's turn; returns whether it came within the time."""
        with self._mutex:
            if not self._is_held:
                self._is_held = True
                return True
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        try:
            return mine.acquire(timeout=timeout_s) or not self._gave_up(mine)
        except BaseException:  # Ctrl-C
            if not self._gave_up(mine):
                self.release()
            raise

    def _gave_up(self, mine: threading.Lock) -> bool:
        """Wait no longer; returns False if the lock was handed over in the last moment."""
        with self._mutex:
            if mine not in self._waiting:
                return False
            self._waiting.remove(mine)
            return True

    def release(self) -> None:
        """Give it to the one who waits longest, if anybody waits."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_held = False
