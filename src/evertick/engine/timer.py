"""The timer: ends a plain function that takes too long.

A thread cannot be killed, but an exception can be raised inside it (CPython's PyThreadState_SetAsyncExc); it takes
effect between two bytecodes, so a function that waits inside C code is ended when it comes back. The exception is
raised only while the function itself runs: arming and disarming are guarded by the same lock as raising.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LOOK_EVERY_S: Final = 0.05
IDLE_ROUNDS: Final = 20


class FunctionTimeout(BaseException):
    """Raised inside a function whose time is over. No `except Exception` of the user's catches it by accident."""


class _Armed(threading.local):
    """A thread's own limit: `entry` is shared with the watching thread."""

    entry: "_Entry | None" = None


class _Entry:
    __slots__ = ("deadline", "fired", "thread")

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.deadline = 0.0
        self.fired = False


class Timer:
    """Limits plain functions, in whatever threads they run. One watching thread serves all of them.

    Arming and disarming are one assignment each, because most functions end long before their limit. Only a function
    that ends at or after its deadline asks, under the lock, whether the watcher has fired: the watcher reads the clock
    before it reads a deadline, so it never fires at one that was taken back before that moment.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []
        self._mine = _Armed()
        self._watcher: threading.Thread | None = None

    @property
    def is_limiting(self) -> bool:
        """Whether this thread is inside a function that is limited."""
        return self._mine.entry is not None and self._mine.entry.deadline > 0

    def call(self, limit_ms: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function`; raises FunctionTimeout, in it, after `limit_ms` milliseconds.

        Inside a function that is limited already the outer limit counts.
        """
        entry = self._mine.entry or self._enter()
        if entry.deadline:
            return function(*args, **kwargs)
        deadline = entry.deadline = time.monotonic() + limit_ms / 1000
        if self._watcher is None:
            self._start_watching()
        try:
            return function(*args, **kwargs)
        finally:
            entry.deadline = 0.0
            if time.monotonic() >= deadline:
                self._take_back(entry)

    def _enter(self) -> _Entry:
        entry = self._mine.entry = _Entry(threading.get_ident())
        with self._lock:
            alive = {thread.ident for thread in threading.enumerate()}
            self._entries = [each for each in self._entries if each.thread in alive] + [entry]
        return entry

    def _start_watching(self) -> None:
        with self._lock:
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="evertick-timer", daemon=True)
                self._watcher.start()

    def _take_back(self, entry: _Entry) -> None:
        """The exception may still be on its way: take it back, so that it cannot strike in code of ours."""
        with self._lock:
            if entry.fired:
                entry.fired = False
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(entry.thread), None)

    def _watch(self) -> None:
        idle_rounds = 0
        while True:
            time.sleep(LOOK_EVERY_S)
            busy = False
            with self._lock:
                now = time.monotonic()
                for entry in self._entries:
                    deadline = entry.deadline
                    busy = busy or deadline > 0
                    if 0 < deadline <= now and not entry.fired:
                        entry.fired = True
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(
                            ctypes.c_ulong(entry.thread), ctypes.py_object(FunctionTimeout)
                        )
                idle_rounds = 0 if busy else idle_rounds + 1
                if idle_rounds > IDLE_ROUNDS:
                    self._watcher = None  # an idle process must not wake up for nothing; the next call starts another
                    return
