"""The timer: ends a plain function that takes too long.

A thread cannot be killed, but an exception can be raised inside it (CPython's PyThreadState_SetAsyncExc); it takes
effect between two bytecodes, so a function that waits inside C code is ended when it comes back. The exception is
raised only while the function itself runs: arming and disarming are guarded by the same lock as raising.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

LOOK_EVERY_S: Final = 0.05


class FunctionTimeout(BaseException):
    """Raised inside a function whose time is over. No `except Exception` of the user's catches it by accident."""


class _Armed:
    __slots__ = ("deadline", "fired", "thread")

    def __init__(self, thread: int, deadline: float) -> None:
        self.thread = thread
        self.deadline = deadline
        self.fired = False


class Timer:
    """Limits plain functions, in whatever threads they run. One watching thread serves all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: dict[int, _Armed] = {}
        self._watcher: threading.Thread | None = None

    def call(self, limit_ms: int, function: Callable[[], T]) -> T:
        """Call `function`; raises FunctionTimeout, in it, after `limit_ms` milliseconds.

        Inside a function that is limited already the outer limit counts.
        """
        thread = threading.get_ident()
        if thread in self._armed:
            return function()
        armed = _Armed(thread, time.monotonic() + limit_ms / 1000)
        self._arm(armed)
        try:
            return function()
        finally:
            self._disarm(armed)

    def _arm(self, armed: _Armed) -> None:
        self._armed[armed.thread] = armed
        if self._watcher is None:
            with self._lock:
                if self._watcher is None:
                    self._watcher = threading.Thread(target=self._watch, name="evertick-timer", daemon=True)
                    self._watcher.start()

    def _disarm(self, armed: _Armed) -> None:
        with self._lock:
            self._armed.pop(armed.thread, None)
            if armed.fired:
                # It may still be on its way: take it back, so that it cannot strike in code of ours.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(armed.thread), None)

    def _watch(self) -> None:
        idle_rounds = 0
        while True:
            time.sleep(LOOK_EVERY_S)
            if not self._armed:
                idle_rounds += 1
                if idle_rounds > 20 and self._retire():
                    return
                continue
            idle_rounds = 0
            now = time.monotonic()
            with self._lock:
                for armed in list(self._armed.values()):
                    if not armed.fired and now >= armed.deadline:
                        armed.fired = True
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(
                            ctypes.c_ulong(armed.thread), ctypes.py_object(FunctionTimeout)
                        )

    def _retire(self) -> bool:
        """End the watcher while nothing runs, so that an idle process does not wake up for it."""
        with self._lock:
            if self._armed:
                return False
            self._watcher = None
            return True
