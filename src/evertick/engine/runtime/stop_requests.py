"""Requests to stop: signals and requests of a supervisor, received even if a function blocks event loop or main thread.

The first request drains. The second ends at once. The process exits immediately at the third, or if the event loop is
blocked and cannot react to the second, or if the end takes too long: everything important is in the database, and the
next worker gives back what was running.

Signal handlers run only in the main thread, and not while it waits inside C code that does not return for them (some
database drivers do that). So a thread reads signals from a pipe (`signal.set_wakeup_fd`) and puts them into a queue. If
an event loop of the program has taken over the pipe, a handler does so. Another thread reads the queue, counts requests
and watches the deadlines: until the process ends, or until the worker has ended in a program that continues.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from evertick.base.step_limit import blocker_of

_logger: Final = logging.getLogger("evertick.engine")

INTERRUPTED: Final = 130
"""The exit code of an interrupted process, as in shells: 128 plus the number of SIGINT."""
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""SIGHUP comes from supervisors that reload, and from a terminal that is closed."""
SIGNALS: Final = "signals"
"""The source of requests that are signals."""
NO_FILE: Final = -1
"""No file, as argument and result of `signal.set_wakeup_fd`."""
TOGETHER_S: Final = 0.25
"""Signals within this time of each other are one request to stop."""
GRACE_S: Final = 6.0
"""Time for the last writes, and for tasks that end late, after the deadline or a request to stop at once."""
RECEIVED_S: Final = 1.0
"""How long the event loop may take to receive a request to stop at once."""
WAIT_MAX_S: Final = 3_600.0
"""The longest wait at a time."""


class _Bursts:
    """Signals that come together: launchers and `timeout` forward signals that the whole process group has received."""

    def __init__(self) -> None:
        self._last_at = -TOGETHER_S

    def begins(self, at: float) -> bool:
        """Whether a signal that comes now is the first of its burst."""
        before, self._last_at = self._last_at, at
        return at - before >= TOGETHER_S


class StopRequests:
    """The requests to stop that one process receives.

    Several sources may report the same request: a signal to a process group reaches both a worker and its supervisor,
    which forwards it to the worker. So the number of requests is that of the source with the most requests.
    """

    def __init__(self, obey: Callable[[bool], object]) -> None:
        """`obey` is called in the loop's thread, for the first request and with True for the second."""
        self.count = 0
        self._obey = obey
        self._asked: Counter[str] = Counter()
        self._bursts = _Bursts()
        self._steps: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain_s = 0.0
        self._deadline: float | None = None
        self._is_closing = self._is_over = False
        self._former: dict[signal.Signals, Any] = {}
        self._wakes = NO_FILE
        self._forking = threading.local()

    @property
    def has_begun(self) -> bool:
        """Whether requests are obeyed already; earlier ones are kept until then."""
        return self._loop is not None

    def ask(self, source: str) -> None:
        """Add a request of a source. May be called in any thread, and in a signal handler."""
        self._steps.put(partial(self._count, source, time.monotonic()))

    def handle_signals(self) -> None:
        """Treat signals as requests. Call it in the main thread."""
        woken, self._wakes = os.pipe()
        os.set_blocking(self._wakes, False)
        threading.Thread(target=self._read_signals, args=(woken,), name="evertick-signals", daemon=True).start()
        for each in _stop_signals():
            self._former[each] = signal.signal(each, self._handle)
        self._take_wakeups()
        # A child must not write into the pipe, not even before its first line of Python runs.
        os.register_at_fork(
            before=self._hold_signals, after_in_parent=self._release_signals, after_in_child=self._forget_in_child
        )

    def begin(self, drain_s: float) -> None:
        """Start to obey in this thread's running loop. The first request gives running functions `drain_s` to end."""
        self._drain_s = drain_s
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, name="evertick-stop", daemon=True).start()

    def close(self) -> None:
        """Note that the loop has ended. If the process was asked to stop, the cleanup gets a time limit, too."""
        self._steps.put(self._begin_to_close)

    def over(self) -> None:
        """Restore the program's signal handlers. The program continues, so its process is not ended any more."""
        self._forget_signals()
        self._steps.put(self._end)

    # -- signals

    def _take_wakeups(self) -> bool:
        """Have Python write signals into the pipe, unless an event loop of the program has set its own file for them.

        Returns whether the pipe was already set.
        """
        before = signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        if before not in (NO_FILE, self._wakes):
            signal.set_wakeup_fd(before)
        return before == self._wakes

    def _handle(self, *_: object) -> None:
        if not self._take_wakeups():  # otherwise the thread has read the signal
            self.ask(SIGNALS)

    def _read_signals(self, woken: int) -> None:
        with os.fdopen(woken, "rb", buffering=0) as numbers:
            while read := numbers.read(1):
                if signal.getsignal(read[0]) == self._handle:
                    self.ask(SIGNALS)

    def _hold_signals(self) -> None:
        self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._former)

    def _release_signals(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._forking.mask)

    def _forget_in_child(self) -> None:
        self._former = dict.fromkeys(self._former)
        self._forget_signals()
        self._release_signals()

    def _forget_signals(self) -> None:
        if not self._former:
            return
        before = signal.set_wakeup_fd(NO_FILE)
        if before not in (NO_FILE, self._wakes):
            signal.set_wakeup_fd(before)
        for each, former in self._former.items():
            signal.signal(each, signal.SIG_DFL if former is None else former)
        self._former.clear()
        os.close(self._wakes)

    # -- the thread

    def _listen(self) -> None:
        while not self._is_over:
            left_s = WAIT_MAX_S if self._deadline is None else min(WAIT_MAX_S, self._deadline - time.monotonic())
            if left_s <= 0:
                self._leave()
            with suppress(Empty):
                self._steps.get(timeout=max(0.0, left_s))()

    def _count(self, source: str, at: float) -> None:
        if source == SIGNALS and not self._bursts.begins(at):
            return
        self._asked[source] += 1
        asked = max(self._asked.values())
        if asked == self.count:
            return
        self.count = asked
        if asked > 2:
            self._leave()
        within_s = RECEIVED_S if asked == 2 else GRACE_S + (0.0 if self._is_closing else self._drain_s)
        self._deadline = time.monotonic() + within_s
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._deliver, asked == 2)

    def _deliver(self, now: bool) -> None:
        if now:
            self._steps.put(self._was_received)
        self._obey(now)

    def _was_received(self) -> None:
        self._deadline = time.monotonic() + GRACE_S

    def _begin_to_close(self) -> None:
        self._is_closing = True
        if self._deadline is not None:
            self._deadline = min(self._deadline, time.monotonic() + (RECEIVED_S if self.count > 1 else GRACE_S))

    def _end(self) -> None:
        self._is_over = True

    def _leave(self) -> None:
        holder = None if self._loop is None or self._loop.is_closed() else blocker_of(self._loop)
        if holder is not None:
            _logger.error("the event loop is held by the %s", holder)
        _logger.error("something does not end; leaving it: the next worker gives back what was running")
        leave(INTERRUPTED)


def on_stop_signals(ask: Callable[[], None]) -> None:
    """Call `ask` at signals to stop, in the loop of this thread, once for signals that come together. For supervisors.

    Signals after the end of the loop have no effect: the process ends in any case.
    """
    loop, bursts = asyncio.get_running_loop(), _Bursts()

    def handler(*_: object) -> None:
        if bursts.begins(time.monotonic()):
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(ask)

    for each in _stop_signals():
        signal.signal(each, handler)


def _stop_signals() -> list[signal.Signals]:
    """The signals that stop this process: without SIGHUP under `nohup`, which ignores it."""
    ignores_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [each for each in STOP_SIGNALS if each is not signal.SIGHUP or not ignores_hangup]


def leave(code: int) -> None:
    """End this process now."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
