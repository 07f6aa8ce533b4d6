"""Time limits of plain functions: they end a function that takes too long without corrupting the state around it.

A thread cannot be killed, but an exception can be raised inside it (CPython's PyThreadState_SetAsyncExc). It takes
effect between two bytecodes, so it could arrive while a transaction is half undone or a driver is in the middle of
its protocol. Therefore each thread records where it is:

* *outside*: in the user's function. The watching thread may raise the exception.
* *inside*: in Evertick's own code, or in a driver. The watcher only notes that the time is over (`fired`), and the
  thread itself raises `FunctionTimeout` when it leaves (`time_out`).

The thread writes `inside`, then reads `fired`; the watcher writes `fired`, then reads `inside`. So one of them sees the
other, without a lock in every call. Between its check and the exception the watcher is `busy`; a thread that comes
inside and finds `fired` waits for that and withdraws an exception that is still pending (`withdraw`). There may be one:
CPython 3.12 and later raise an exception that is set during a thread switch only at the next one, which may be inside.

`fired` is sticky: once it is set, the function has timed out, even if it catches the exception or returns.

A function that waits inside C code (a sleep, a lock, a socket) is ended when it comes back to Python. A statement of
the function's own SQL is interrupted through its driver (`run_interruptible`). Time in which the
process is suspended does not count.

A limit has two parts: processor time of the function's thread, which does not depend on other load of the machine, and
wall time, which also limits waiting. The watcher reads the thread's clock, so it costs a call nothing; processor time
counts from the watcher's first poll of the call, up to `POLL_EVERY_S` after its beginning. Where threads have no such
clock (macOS, Windows) it counts the processor time of the whole process instead, at most the wall time: other threads
that compute at the same time count for the function, other processes do not.
"""

import gc
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeVar

from evertick.base.forks import end_if_forked, generation

# -- Exceptions in other threads, as CPython raises them: PyThreadState_SetAsyncExc.


@cache
def exceptions_in_threads() -> tuple[Callable[[int, type[BaseException]], int], Callable[[int, None], int]]:
    """Return two functions: one raises an exception in a thread, the other withdraws one that is not delivered yet."""
    import ctypes  # not needed by a program that only schedules functions

    raise_in = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)
    take_back = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)  # a py_object cannot be NULL
    source = ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
    return raise_in(source), take_back(source)


class _Delivered(BaseException):
    """Raised by the watching thread in itself."""


def lower_flag() -> None:
    """Let the interpreter deliver an exception to this thread, where it is harmless.

    Until 3.12 CPython has one flag for all threads that says "an exception is to be delivered". Withdrawing one sets
    the flag, too, and only a delivery clears it. As long as it is set, all Python code is slower, and on 3.11 a
    function that is called under `sys.setprofile` or `sys.settrace` never begins.

    The garbage collector is disabled meanwhile: a finalizer that it runs in this thread would get the exception, be
    interrupted by it, and swallow it. The loop raises another one if that happens all the same: the thread that calls
    this watches the time limits of all others.
    """
    raise_in, me = exceptions_in_threads()[0], threading.get_ident()
    collects = gc.isenabled()
    gc.disable()
    try:
        while True:
            raise_in(me, _Delivered)
    except _Delivered:
        pass
    finally:
        if collects:
            gc.enable()


try:
    import resource
except ImportError:  # Windows, which has no SIGSTOP
    resource = None  # type: ignore[assignment]

T = TypeVar("T")

POLL_EVERY_S: Final = 0.01
RAISE_AGAIN_S: Final = 0.05
"""A function that caught the exception and continues gets another one after this time."""
SUSPENSION_S: Final = 0.5
"""The watching thread is this late only if the process was stopped (SIGSTOP, a paused container) or starved."""
WAITS_OF_A_THREAD: Final = 10
"""With this many waits in that time it was neither: the thread ran, and waited for the interpreter."""
IDLE_ROUNDS: Final = 100
"""Polls without a running limit after which the watching thread ends: an idle process must not wake up needlessly."""


class Limit(NamedTuple):
    """The maximum duration of a function."""

    wall_s: float
    cpu_s: float = math.inf
    """Processor time of its thread."""


UNLIMITED: Final = Limit(math.inf)


class TimeOver(Enum):
    """The part of its time limit that a function has exceeded: processor time or total time."""

    CPU = "cpu"
    """Its processor time."""
    WALL = "wall"
    """Its wall time. It computed for at least half of it, or its processor time is not limited."""
    WAITED = "waited"
    """Its wall time. For most of it, the function waited or other programs ran."""


class Over(NamedTuple):
    """How a function has exceeded its limit."""

    by: TimeOver
    cpu_s: float
    """The processor time that it used, if that is limited."""


class FunctionTimeout(BaseException):
    """Raised inside a function whose time is over. A BaseException, so that `except Exception` does not catch it."""

    over: Over | None = None
    """Set by `Guard.call`, unless the function was stopped."""


def is_interrupt(error: BaseException) -> bool:
    """Whether the error may come from Ctrl-C, which is delivered only to the main thread.

    Only Python's default signal handler raises it there; a worker and programs in `asyncio.run` have another one.
    In all other cases a function has raised it.
    """
    # Not isinstance: a user's error class may define `__class__` as a property.
    if not issubclass(type(error), KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


class StopFlag:
    """Set by another thread to end a function before its time is over."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        """End the function."""
        self.is_set = True


class Step(Protocol):
    """A step of a coroutine, which blocks its event loop (`evertick.base.step_limit`)."""

    def poll(self, now: float) -> Callable[[], object] | None:
        """Called by the watcher. Return a report to call in a separate thread, or None."""
        ...

    def may_be_interrupted(self, now: float) -> bool:
        """Whether the running code can be interrupted without harm to others."""
        ...


class Guard:
    """The time limit of one thread.

    Only the thread writes `inside` and `deadline`; only the watcher writes `fired` and `busy`.
    """

    __slots__ = (
        "busy",
        "cpu_at_first",
        "cpu_clock",
        "deadline",
        "fired",
        "inside",
        "interrupt",
        "interrupting",
        "limit",
        "over",
        "raise_again_at",
        "seen",
        "step",
        "stop",
        "thread",
    )

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.inside = True
        self.deadline = 0.0
        self.limit = UNLIMITED
        """The limit of the call. Written before `deadline`."""
        self.cpu_clock = _cpu_clock()
        self.cpu_at_first = 0.0
        self.seen = (0.0, 0.0)
        """The deadline of the call that the watcher saw last, and when it saw it first."""
        self.fired = False
        self.over: Over | None = None
        """How the call that has fired exceeded its limit; None if it was stopped. Only the watcher writes it."""
        self.busy = False
        self.raise_again_at = 0.0
        self.interrupt: Callable[[], object] | None = None
        self.interrupting: threading.Thread | None = None
        self.step: Step | None = None
        """The step of a coroutine that runs in this thread."""
        self.stop: StopFlag | None = None
        """Ends the running function before its time is over. Set before the call, by this thread."""

    @property
    def is_limiting(self) -> bool:
        """Whether this thread runs a function with a time limit."""
        return self.deadline > 0

    def time_out(self, cause: BaseException | None = None) -> NoReturn:
        """Raise FunctionTimeout here, so that the watcher does not raise it again. Called when the thread leaves."""
        self.inside = True
        try:
            self.withdraw()
        finally:
            self.inside = False
        raise FunctionTimeout from cause

    def withdraw(self) -> None:
        """Called inside. When it returns, no exception is pending; one that was may be raised in this method."""
        global _flag_is_up  # noqa: PLW0603
        while self.busy:  # the watcher is between reading `inside` and raising the exception
            time.sleep(0)
        exceptions_in_threads()[1](self.thread, None)
        _flag_is_up = True

    def settle(self) -> None:
        """As `withdraw`, for code that continues: it catches a FunctionTimeout that is raised in this method."""
        try:
            self.withdraw()
        except FunctionTimeout:  # this was the pending one
            self.withdraw()

    def call(self, limit: Limit, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call the user's function outside, and come back inside; no exception is pending afterwards.

        Raises FunctionTimeout if it took longer than `limit`, even if it returned or raised something else. Inside a
        function that has a limit already, the outer limit applies.
        """
        if self.deadline:
            return self.call_outside(function, *args, **kwargs)
        error: BaseException | None = None
        forks_before = generation()
        self.fired = False
        self.limit = limit
        self.deadline = function_time() + limit.wall_s
        try:
            if _watcher is None:
                start_watching()
            self.inside = False
            result = function(*args, **kwargs)
            self.inside = True  # a store to a slot: no exception is delivered between the call and this line
        except BaseException as raised:
            self.inside = True
            error = raised
        # From here on every call and loop is in a `try`: an exception can be delivered in each.
        try:
            end_if_forked(forks_before, error)
        except FunctionTimeout:
            pass
        self.deadline = 0.0
        if self.fired or self.busy:
            try:
                self.settle()
            except FunctionTimeout:
                pass
        if self.fired:
            self.fired = False
            timeout = FunctionTimeout()
            timeout.over = self.over
            raise timeout from error
        if error is not None:
            raise error
        return result

    def call_outside(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call the user's code from inside, within the running limit: for a function that another one calls.

        The outermost `call` handles the exceptions of the watcher.
        """
        was_inside = self.inside
        error: BaseException | None = None
        try:
            self.inside = False
            result = function(*args, **kwargs)
            self.inside = was_inside
        except BaseException as raised:
            self.inside = was_inside
            error = raised
        if was_inside and self.fired:
            try:
                self.settle()
            except FunctionTimeout:
                pass
        if error is not None:
            raise error
        return result

    def run_inside(self, work: Callable[..., T], /, *args: Any) -> T:
        """Run Evertick's code that user code has called. Raises FunctionTimeout at its end if the time is over; its
        cause is then what the work itself raised.
        """
        if self.inside:
            return work(*args)
        self.inside = True
        if self.fired:
            try:
                self.settle()
            except FunctionTimeout:
                pass
        try:
            result = work(*args)
        except BaseException as error:
            self.inside = False
            if self.fired:
                self.time_out(error)
            raise
        self.inside = False
        if self.fired:
            self.time_out()
        return result

    def uncounted(self, work: Callable[..., T], /, *args: Any) -> T:
        """Run Evertick's code inside, as `run_inside`, without counting its time: loading a package, for example."""
        deadline, began = self.deadline, function_time()
        if not deadline:
            return work(*args)

        def later() -> T:
            self.deadline = math.inf
            try:
                return work(*args)
            finally:
                self.deadline = deadline + function_time() - began

        return self.run_inside(later)

    def run_interruptible(self, interrupt: Callable[[], object], work: Callable[[], T]) -> T:
        """Run a driver's work inside. If the time runs out meanwhile, the watcher calls `interrupt`, which makes it
        fail.

        Evertick's own statements are never interrupted. When this returns, no interruption is pending: it would end a
        later statement. Raises FunctionTimeout as `run_inside`.
        """
        return work() if self.inside else self.run_inside(self._interruptible, interrupt, work)

    def _interruptible(self, interrupt: Callable[[], object], work: Callable[[], T]) -> T:
        self.interrupt = interrupt
        try:
            return work()
        finally:
            self.interrupt = None
            while self.busy:
                time.sleep(0)
            interrupting, self.interrupting = self.interrupting, None
            if interrupting is not None:
                interrupting.join()

    def poll(self, now: float) -> bool:
        """Called by the watcher; return whether a limit runs. `now` was read before the deadline."""
        raise_in = exceptions_in_threads()[0]
        self.busy = True
        deadline, stop, step = self.deadline, self.stop, self.step
        report = step.poll(now) if deadline > 0 and step is not None else None
        limit = self.limit
        cpu_s = self._cpu_used(deadline, now) if 0 < deadline < math.inf and limit.cpu_s < math.inf else 0.0
        by_cpu = cpu_s > 0 and cpu_s >= limit.cpu_s
        is_stopped = stop is not None and stop.is_set
        is_over = deadline > 0 and (by_cpu or deadline <= now or is_stopped)
        if is_over and (not self.fired or now >= self.raise_again_at):
            if not self.fired:
                has_waited = limit.cpu_s < math.inf and cpu_s < limit.wall_s / 2
                # If both parts of the limit are equal, the wall time counts, however late this poll is.
                by_cpu = by_cpu and limit.cpu_s < limit.wall_s
                by = TimeOver.CPU if by_cpu else TimeOver.WAITED if has_waited else TimeOver.WALL
                self.over = None if is_stopped else Over(by, cpu_s)
            self.fired = True
            may_raise = step is None or step.may_be_interrupted(now)
            self.raise_again_at = now + RAISE_AGAIN_S if may_raise else now
            # Nothing between this check and the exception may switch to the thread, as the end of a call does.
            if not self.inside:
                if may_raise:
                    raise_in(self.thread, FunctionTimeout)
            elif self.interrupt is not None and self.interrupting is None:
                # In a separate thread: a driver sends this through a second connection, which may take long.
                self.interrupting = threading.Thread(target=self.interrupt, name="evertick-interrupt", daemon=True)
                self.interrupting.start()
        self.busy = False
        if report is not None:
            threading.Thread(target=report, name="evertick-report", daemon=True).start()
        return deadline > 0

    def _cpu_used(self, deadline: float, now: float) -> float:
        """Called by the watcher: the processor time of the call with this deadline, since the first poll of it."""
        try:
            cpu_s = time.process_time() if self.cpu_clock is None else time.clock_gettime(self.cpu_clock)
        except OSError:  # the thread has ended meanwhile
            return 0.0
        if self.seen[0] != deadline:
            self.seen, self.cpu_at_first = (deadline, now), cpu_s
        used_s = cpu_s - self.cpu_at_first
        return used_s if self.cpu_clock is not None else min(used_s, now - self.seen[1])


def _cpu_clock() -> int | None:
    """The clock of this thread's processor time, for other threads; None where the system has none.

    The thread itself requests it: for a thread that has ended the C library may crash.
    """
    return time.pthread_getcpuclockid(threading.get_ident()) if hasattr(time, "pthread_getcpuclockid") else None


class _ThreadState(threading.local):
    guard: Guard | None = None


_thread_state: Final = _ThreadState()
_guards: Final[list[Guard]] = []
_lock = threading.Lock()
_watcher: threading.Thread | None = None
_flag_is_up = False
"""Whether an exception was taken back since the last delivery; see `lower_flag`."""
_suspended_s = 0.0
"""How long this process was suspended while limits ran. Only the watching thread writes it."""


def current_guard() -> Guard:
    """The guard of this thread."""
    guard = _thread_state.guard
    if guard is None:
        guard = _thread_state.guard = Guard()
        with _lock:
            # No weak references: their callbacks run in the thread that drops the last one, and could be interrupted.
            alive = {thread.ident for thread in threading.enumerate()}
            _guards[:] = [*(each for each in _guards if each.thread in alive), guard]
    return guard


class TimeLimits:
    """Limits the functions of an environment, each in its own thread. A simulation has its own limits."""

    limits_steps = True
    """Whether the steps of coroutines have limits, too."""

    @property
    def is_limiting(self) -> bool:
        """Whether this thread runs a function with a time limit."""
        return current_guard().is_limiting

    def call(self, limit: Limit, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call `function`. Raises FunctionTimeout if it takes longer than `limit`."""
        return current_guard().call(limit, function, *args, **kwargs)


def start_watching() -> None:
    """Start the watching thread unless it runs. It ends by itself while no limit runs."""
    global _watcher  # noqa: PLW0603
    if _watcher is None:
        with _lock:
            if _watcher is None:
                _watcher = threading.Thread(target=_watch, name="evertick-time-limits", daemon=True)
                _watcher.start()


def _watch() -> None:
    global _watcher, _suspended_s, _flag_is_up  # noqa: PLW0603
    idle_rounds = 0
    polled_at, waits = time.monotonic(), _waits()
    while True:
        time.sleep(POLL_EVERY_S)
        last_poll, last_waits = polled_at, waits
        polled_at, waits = time.monotonic(), _waits()
        if polled_at - last_poll > SUSPENSION_S and waits - last_waits < WAITS_OF_A_THREAD:
            _suspended_s += polled_at - last_poll
        if _flag_is_up:
            _flag_is_up = False
            lower_flag()
        with _lock:
            now = function_time()
            busy = [guard.poll(now) for guard in _guards]
            idle_rounds = 0 if any(busy) else idle_rounds + 1
            if idle_rounds > IDLE_ROUNDS:
                me, _watcher = _watcher, None  # the next limited call starts another
                # A call sets its deadline, then checks for a watcher. The order is reversed here, so one sees the
                # other.
                if not any(guard.is_limiting for guard in _guards):
                    return
                _watcher = me


def function_time() -> float:
    """Seconds of the clock that measures limits. It stands still while the process is suspended."""
    return time.monotonic() - _suspended_s


def _waits() -> int:
    """The number of times this thread has waited, or 0 if the system does not count it.

    If the watcher polls late, either it waited for the interpreter, which some C code did not release (then it
    requested it every few milliseconds), or the process was stopped (then it did not wait at all).
    """
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _forget_threads() -> None:
    """A forked child has none of its parent's threads."""
    global _watcher, _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _watcher = None
    _guards.clear()
    _thread_state.guard = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
