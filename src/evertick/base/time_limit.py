"""Time limits of plain functions: they end a function that takes too long, and never break the state around it.

A thread cannot be killed, but an exception can be raised inside it (CPython's PyThreadState_SetAsyncExc). It takes
effect between two bytecodes, so it could strike where a transaction is half undone or a driver half through its
protocol. Therefore each thread says where it is:

* *outside*: in the user's function. The watching thread may strike.
* *inside*: in Evertick's own code, or in a driver. The watcher only notes that the time is over (`fired`), and the
  thread itself raises `FunctionTimeout` when it leaves (`time_out`).

The thread writes `inside`, then reads `fired`; the watcher writes `fired`, then reads `inside`. So one of them sees the
other, without a lock on the way of every call. Between its look and its strike the watcher is `busy`; a thread that
comes inside and finds `fired` waits for that and takes back an exception that is still under way (`land`). There may be
one: where a thread gives way to the watcher, CPython 3.12 and later raise what was set meanwhile only at the next such
place, which may be inside.

`fired` is sticky: once it is set, the function has timed out, whatever it catches or returns afterwards.

A function that waits inside C code (a sleep, a lock, a socket) is ended when it comes back to Python. A statement of
the function's own SQL is interrupted, because its driver can be told to (`run_interruptible`). Time in which the
process is suspended does not count.

A limit has two parts: processor time of the function's thread, which does not depend on what else runs on the machine,
and wall time, which also bounds what waits. The watcher reads the thread's clock, so a call pays nothing for it; it
counts from the watcher's first look at the call, up to `LOOK_EVERY_S` after its beginning. Where threads have no such
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
    """How to raise an exception in a thread, and how to take one back that has not been delivered."""
    import ctypes  # not needed by a program that only schedules functions

    raise_in = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)
    take_back = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)  # a py_object cannot be NULL
    source = ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
    return raise_in(source), take_back(source)


class _Delivered(BaseException):
    """Raised in the watching thread by itself."""


def lower_flag() -> None:
    """Let the interpreter deliver an exception, here where it does no harm.

    Until 3.12 CPython has one flag for all threads that says "an exception is to be delivered". Taking one back raises
    the flag, too, and only a delivery lowers it. As long as it is up, all Python code is slower, and on 3.11 a function
    that is called under `sys.setprofile` or `sys.settrace` never begins.

    The garbage collector stands still meanwhile: a finalizer that it runs in this thread would get the exception, be
    cut off by it, and swallow it. Should one get it all the same, another is raised: the thread that calls this watches
    the time limits of all others.
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
except ImportError:  # Windows, which cannot stop a process in this way
    resource = None  # type: ignore[assignment]

T = TypeVar("T")

LOOK_EVERY_S: Final = 0.01
STRIKE_AGAIN_S: Final = 0.05
"""A function that caught the exception and goes on is struck again after this time."""
SUSPENSION_S: Final = 0.5
"""The watching thread looks this late only if the process was stopped (SIGSTOP, a paused container) or starved."""
WAITS_OF_A_THREAD: Final = 10
"""Waits within that time from which on it was neither: the thread ran, and waited for the interpreter."""
IDLE_ROUNDS: Final = 100
"""Looks without a running limit after which the watching thread ends: an idle process must not wake up for nothing."""


class Limit(NamedTuple):
    """How long a function may take."""

    wall_s: float
    cpu_s: float = math.inf
    """Processor time of its thread."""


UNLIMITED: Final = Limit(math.inf)


class TimeOver(Enum):
    """Which part of its time a function has used up."""

    CPU = "cpu"
    """Its processor time."""
    WALL = "wall"
    """Its wall time, for at least half of which it computed, or its processor time is not limited."""
    WAITED = "waited"
    """Its wall time, most of which it waited, or other programs ran."""


class Over(NamedTuple):
    """How a function has used up its time."""

    by: TimeOver
    cpu_s: float
    """The processor time it used, where that is limited."""


class FunctionTimeout(BaseException):
    """Raised inside a function whose time is over. No `except Exception` of the user's catches it by accident."""

    over: Over | None = None
    """Set by `Guard.call`, unless the function was stopped."""


def is_interrupt(error: BaseException) -> bool:
    """Whether it may come from Ctrl-C, which is delivered to the main thread alone.

    Only Python's own handler of the signal raises it there; a worker and programs in `asyncio.run` have another one.
    Elsewhere a function has raised it.
    """
    # Its class is not asked: of an error of the user's, even that may be a property.
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
    """A step of a coroutine, which holds its event loop (`evertick.base.step_limit`)."""

    def look(self, now: float) -> Callable[[], object] | None:
        """The watcher's part: what to call, in a thread of its own, if there is something to be told."""
        ...

    def may_be_struck(self, now: float) -> bool:
        """Whether the code that runs just now can be struck without harm to others."""
        ...


class Guard:
    """One thread's limit. Only the thread writes `inside` and `deadline`, only the watcher `fired` and `busy`."""

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
        "seen",
        "step",
        "stop",
        "strike_at",
        "thread",
    )

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.inside = True
        self.deadline = 0.0
        self.limit = UNLIMITED
        """That of the call. Written before `deadline`."""
        self.cpu_clock = _cpu_clock()
        self.cpu_at_first = 0.0
        self.seen = (0.0, 0.0)
        """The deadline of the call that the watcher saw last, and when it saw it first."""
        self.fired = False
        self.over: Over | None = None
        """How the time of the call ran out that has fired; None if it was stopped. Only the watcher writes it."""
        self.busy = False
        self.strike_at = 0.0
        self.interrupt: Callable[[], object] | None = None
        self.interrupting: threading.Thread | None = None
        self.step: Step | None = None
        """The step of a coroutine that runs in this thread."""
        self.stop: StopFlag | None = None
        """Ends the function that runs before its time is over. Set before the call, by this thread."""

    @property
    def is_limiting(self) -> bool:
        """Whether this thread is inside a function that is limited."""
        return self.deadline > 0

    def time_out(self, cause: BaseException | None = None) -> NoReturn:
        """Raise FunctionTimeout here, and not once more by the watcher's hand. For code that was inside, at its end."""
        self.inside = True
        try:
            self.land()
        finally:
            self.inside = False
        raise FunctionTimeout from cause

    def land(self) -> None:
        """Inside: when this ends, no exception is under way any more. It may itself be struck by the last one."""
        global _flag_is_up  # noqa: PLW0603
        while self.busy:  # the watcher is between its look at `inside` and its strike
            time.sleep(0)
        exceptions_in_threads()[1](self.thread, None)
        _flag_is_up = True

    def settle(self) -> None:
        """As `land`, for code that goes on. It catches FunctionTimeout: this call is itself a place to be struck."""
        try:
            self.land()
        except FunctionTimeout:  # this was the one under way
            self.land()

    def call(self, limit: Limit, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call the user's function outside, and come back inside; nothing strikes afterwards.

        Raises FunctionTimeout if it took longer than `limit`, whatever it returned or raised. Inside a function that
        is limited already the outer limit counts.
        """
        if self.deadline:
            return self.pass_out(function, *args, **kwargs)
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
            self.inside = True  # a slot's store: the interpreter delivers no exception between the call and it
        except BaseException as raised:
            self.inside = True
            error = raised
        # From here on no call and no loop stands outside a `try`: each is a place to be struck.
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

    def pass_out(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call the user's code from inside, within the limit that runs: one function called by another.

        What strikes it, and what it catches, the outermost `call` knows.
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
        """Run code of ours that user code has called. Raises FunctionTimeout at its end if the time has run out; what
        the work itself has raised is its cause then.
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
        """Run code of ours inside, as `run_inside`, in time that does not count: loading a package, for example."""
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
        """Do a driver's work inside; if the time runs out meanwhile, the watcher calls `interrupt`, so that it fails.

        What Evertick itself asks is never cut off. When this ends, no interruption is under way any more: it would end
        a later statement. Raises FunctionTimeout as `run_inside`.
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

    def look(self, now: float) -> bool:
        """The watcher's part; returns whether a limit runs. `now` was read before the deadline is."""
        strike = exceptions_in_threads()[0]
        self.busy = True
        deadline, stop, step = self.deadline, self.stop, self.step
        telling = step.look(now) if deadline > 0 and step is not None else None
        limit = self.limit
        cpu_s = self._cpu_used(deadline, now) if 0 < deadline < math.inf and limit.cpu_s < math.inf else 0.0
        by_cpu = cpu_s > 0 and cpu_s >= limit.cpu_s
        is_stopped = stop is not None and stop.is_set
        is_over = deadline > 0 and (by_cpu or deadline <= now or is_stopped)
        if is_over and (not self.fired or now >= self.strike_at):
            if not self.fired:
                has_waited = limit.cpu_s < math.inf and cpu_s < limit.wall_s / 2
                # A limit of one number for both is that of the wall time, however late this look is.
                by_cpu = by_cpu and limit.cpu_s < limit.wall_s
                by = TimeOver.CPU if by_cpu else TimeOver.WAITED if has_waited else TimeOver.WALL
                self.over = None if is_stopped else Over(by, cpu_s)
            self.fired = True
            may_strike = step is None or step.may_be_struck(now)
            self.strike_at = now + STRIKE_AGAIN_S if may_strike else now
            # Nothing between the look and the strike may give the interpreter to the thread, as the end of a call does.
            if not self.inside:
                if may_strike:
                    strike(self.thread, FunctionTimeout)
            elif self.interrupt is not None and self.interrupting is None:
                # In a thread of its own: a driver asks its server through a second connection, which may take long.
                self.interrupting = threading.Thread(target=self.interrupt, name="evertick-interrupt", daemon=True)
                self.interrupting.start()
        self.busy = False
        if telling is not None:
            threading.Thread(target=telling, name="evertick-telling", daemon=True).start()
        return deadline > 0

    def _cpu_used(self, deadline: float, now: float) -> float:
        """The watcher's part: the processor time of the call with this deadline, since its first look at it."""
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

    Asked for by the thread itself: for a thread that has ended the C library may crash.
    """
    return time.pthread_getcpuclockid(threading.get_ident()) if hasattr(time, "pthread_getcpuclockid") else None


class _Mine(threading.local):
    guard: Guard | None = None


_mine: Final = _Mine()
_guards: Final[list[Guard]] = []
_lock = threading.Lock()
_watcher: threading.Thread | None = None
_flag_is_up = False
"""Whether an exception was taken back since the last delivery; see `lower_flag`."""
_suspended_s = 0.0
"""How long this process was suspended while limits ran. Only the watching thread writes it."""


def current_guard() -> Guard:
    """The guard of this thread."""
    guard = _mine.guard
    if guard is None:
        guard = _mine.guard = Guard()
        with _lock:
            # Not by weak references: their callbacks run in the thread that drops the last one, and could be struck.
            alive = {thread.ident for thread in threading.enumerate()}
            _guards[:] = [*(each for each in _guards if each.thread in alive), guard]
    return guard


class TimeLimits:
    """Limits the functions of an environment, each in whatever thread it runs. A simulation has limits of its own."""

    limits_steps = True
    """Whether the steps of coroutines have limits, too."""

    @property
    def is_limiting(self) -> bool:
        """Whether this thread is inside a function that is limited."""
        return current_guard().is_limiting

    def call(self, limit: Limit, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call `function`. Raises FunctionTimeout if it takes longer than `limit`."""
        return current_guard().call(limit, function, *args, **kwargs)


def start_watching() -> None:
    """Start the watching thread, unless it runs: it ends by itself while nothing is limited."""
    global _watcher  # noqa: PLW0603
    if _watcher is None:
        with _lock:
            if _watcher is None:
                _watcher = threading.Thread(target=_watch, name="evertick-time-limits", daemon=True)
                _watcher.start()


def _watch() -> None:
    global _watcher, _suspended_s, _flag_is_up  # noqa: PLW0603
    idle_rounds = 0
    looked_at, waits = time.monotonic(), _waits()
    while True:
        time.sleep(LOOK_EVERY_S)
        last_look, last_waits = looked_at, waits
        looked_at, waits = time.monotonic(), _waits()
        if looked_at - last_look > SUSPENSION_S and waits - last_waits < WAITS_OF_A_THREAD:
            _suspended_s += looked_at - last_look
        if _flag_is_up:
            _flag_is_up = False
            lower_flag()
        with _lock:
            now = function_time()
            busy = [guard.look(now) for guard in _guards]
            idle_rounds = 0 if any(busy) else idle_rounds + 1
            if idle_rounds > IDLE_ROUNDS:
                me, _watcher = _watcher, None  # the next limited call starts another
                # A call sets its deadline, then looks for a watcher; the other way round here, so one sees the other.
                if not any(guard.is_limiting for guard in _guards):
                    return
                _watcher = me


def function_time() -> float:
    """Seconds by the clock that limits are measured with. It stands still while the process is suspended."""
    return time.monotonic() - _suspended_s


def _waits() -> int:
    """How often this thread has waited for anything, or 0 where the system does not say.

    A watcher that looks late either waited for the interpreter, which some C code did not give away (then it asked for
    it every few milliseconds), or the process was stopped (then it did nothing at all).
    """
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _forget_threads() -> None:
    """A forked child has none of its parent's threads."""
    global _watcher, _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _watcher = None
    _guards.clear()
    _mine.guard = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
