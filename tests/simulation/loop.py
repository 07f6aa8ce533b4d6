"""A deterministic asyncio loop: simulated processes, virtual time, kills and pauses, all from one seed.

    loop = SimulationLoop(seed=7, rates={"kill": 0.01, "pause": 0.005})
    with loop:
        loop.run(scenario(loop))
    print(plan_text(loop.faults.plan))

One seed is one schedule, bit for bit, on every Python and whatever PYTHONHASHSEED: there is no thread, no
socket and no real clock here; tasks and futures hash by a serial number, because asyncio keeps some of them
in sets (TaskGroup, `asyncio.wait`) and a hash by address would make the order of wake-ups differ from run to
run.

**Time.** `loop.time()` is virtual seconds from 0. It moves only when nothing can run, and then jumps to the
next timer. `SimulatedClock` turns it into the wall clock of a process, with a skew. Whatever runs here must
take its clock, ids and chance from outside (`loop.random` is the run's chance), and use no threads:
`run_in_executor` is refused.

**Processes.** A process is a name and a context variable that its tasks inherit. What is ready runs in FIFO
order within a process, as asyncio promises; which process goes next is drawn from the seed, so all
interleavings of awaits between processes occur, and no impossible ones.

    worker = loop.spawn("worker-1", run_worker, store)     # a coroutine function and its arguments
    await worker.ended()                                   # by its own end, or killed
    loop.kill(worker)                                      # SIGKILL
    loop.pause(worker, 12.0)                               # SIGSTOP, and SIGCONT 12 s later
    loop.deliver(worker, poke.set, delay=0.005)            # a message: runs there, or is lost with it
    loop.on_end.append(restart)                            # called with every process that ends

When a process's main coroutine ends, its other tasks are cancelled and awaited, as `asyncio.run` does it.
Code that belongs to no process (the scenario itself, the outside world) runs in the process `world`, which is
never faulted. Processes must share nothing but what survives a crash: the database, and what the scenario
keeps as ground truth.

**Kill** means SIGKILL: the process's callbacks never run again, so no `finally` and no `except` gets a say.
The dead coroutines are kept until `close()` (the end of the `with` block), which is when their `finally`
blocks run, after the verdict: judge before closing. (Until then no garbage is collected: a run makes many objects and
little garbage, and the search for it takes a third of the time.) **Pause** means that the process stands still, its
timers too, and then goes on, still believing what it believed.

**Faults** are drawn from a stream of their own (`loop.faults`, see `tests.simulation.faults`) at every step
of a killable process (`kill`, `pause`) and at every labelled point. `loop.point("finish.before_commit")`,
called by synchronous code, counts the label and may draw `crash/finish.before_commit`: the process dies right
there. The call raises ProcessKilled, a BaseException, to leave the synchronous code; a connection that
unwinds then must roll back, which is what the database does to a dead client.
`loop.faults.strikes("lost_reply")` is for kinds of the scenario's own. `SimulationLoop(seed,
plan=parse_plan(text))` replays.

**Ends.** `Deadlock`: the scenario is not done and nothing can ever run again; the message says where every
task waits. `Livelock`: too many steps in all, or at one instant. `loop.timeline()` gives the last steps and
notes as text; `loop.digest()` with `trace=True` is equal for equal runs. `loop.errors` collects what asyncio
reports to a loop's exception handler; a scenario should find it empty.
"""

import asyncio
import contextvars
import gc
import hashlib
import heapq
import random
from asyncio import events
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar, TypeVarTuple

from evertick.base.instants import Instant
from tests.simulation.faults import Fault, Faults
from tests.simulation.processes import (
    PROCESS,
    Process,
    ProcessKilled,
    ProcessState,
    SimulatedFuture,
    SimulatedTask,
    current_process,
)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STEPS_MAX: Final = 500_000
STEPS_AT_ONCE_MAX: Final = 20_000
TIMELINE_LENGTH: Final = 200
PAUSES: Final[Sequence[float]] = (0.001, 0.05, 0.5, 3.0, 12.0, 45.0)
PRUNE_EVERY: Final = 256


class SimulationFailure(AssertionError):
    """The run cannot go on; the seed is at fault for nothing, the code is."""


class Deadlock(SimulationFailure):
    """Nothing can ever run again, and the scenario is not done."""


class Livelock(SimulationFailure):
    """Too many steps: something runs for ever."""


class SimulationLoop(asyncio.BaseEventLoop):
    """The loop; the module says what it is. Use it in a `with` block and once."""

    def __init__(
        self,
        seed: int,
        *,
        rates: Mapping[str, float] | None = None,
        plan: Sequence[Fault] | None = None,
        pauses: Sequence[float] = PAUSES,
        trace: bool = False,
        steps_max: int = STEPS_MAX,
    ) -> None:
        # BaseEventLoop's own machinery (queues, executor, signal pipe) is replaced, not used; deriving from
        # it gives the many methods that need no more than call_soon, call_at and create_task.
        self._closed = False
        super().__init__()
        self.random = random.Random(f"{seed}/schedule")
        self.faults = Faults(seed, rates=rates, plan=plan)
        self.seed = seed
        self.steps = 0
        self.pauses = pauses
        self.points: Counter[str] = Counter()
        self.errors: list[dict[str, Any]] = []
        self.on_end: list[Callable[[Process], None]] = []
        self._steps_max = steps_max
        self._steps_now = 0
        self._now = 0.0
        self._serial = 0
        self._timers: list[tuple[float, int, Process, asyncio.TimerHandle]] = []
        self._timeline: deque[tuple[int, float, str, object]] = deque(maxlen=TIMELINE_LENGTH)
        self._hash = hashlib.blake2b(digest_size=16) if trace else None
        self._world = Process(self, "world", killable=False)
        self._processes: list[Process] = [self._world]
        self._graves: list[Process] = []
        self._collects = gc.isenabled()

    def __enter__(self) -> Self:
        gc.disable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- running

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the scenario in the world until it is done, and return its result.

        Raises what it raises; Deadlock or Livelock if it cannot end.
        """
        previous = events._get_running_loop()
        events._set_running_loop(self)
        try:
            task = self._world.context.run(self.create_task, main, name="scenario")
            while not task.done():
                self._step()
            result: T = task.result()
            return result
        finally:
            events._set_running_loop(previous)

    def _step(self) -> None:
        """Run one callback of one process, or let a fault strike there instead."""
        process = self._next_process()
        self.steps += 1
        self._steps_now += 1
        if self.steps > self._steps_max or self._steps_now > STEPS_AT_ONCE_MAX:
            where = f"{self.steps} steps, {self._steps_now} of them at {self._now:.3f} s"
            raise Livelock(f"{where}\n{self.timeline(20)}")
        if process.killable and self._strike(process):
            return
        handle = process.ready.popleft()
        self._record(process, handle)
        handle._run()

    def _next_process(self) -> Process:
        """The process that runs next, drawn among those that can; moves time when none can."""
        while True:
            able = [one for one in self._processes if one.ready and one.paused_until is None and one.has_work()]
            if able:
                return able[0] if len(able) == 1 else able[self.random.randrange(len(able))]
            self._move_time()

    def _move_time(self) -> None:
        """Jump to the next moment at which something can happen; waiting costs nothing."""
        timers = self._timers
        while timers and (timers[0][3].cancelled() or not timers[0][2].alive):
            heapq.heappop(timers)
        moments = [process.paused_until for process in self._processes if process.paused_until is not None]
        if timers:
            moments.append(timers[0][0])
        if not moments:
            where = f"nothing can run any more at {self._now:.3f} s\n{self._whereabouts()}"
            raise Deadlock(f"{where}\n{self.timeline(20)}")
        moment = min(moments)
        if moment > self._now:
            self._now, self._steps_now = moment, 0
        for process in self._processes:
            if process.paused_until is not None and process.paused_until <= self._now:
                process.paused_until = None
        while timers and timers[0][0] <= self._now:
            _, _, process, handle = heapq.heappop(timers)
            if not handle.cancelled() and process.alive:
                process.ready.append(handle)

    def _strike(self, process: Process) -> bool:
        if self.faults.strikes("kill"):
            self.kill(process)
            return True
        pause = self.faults.strikes("pause", self.pauses)
        if pause:
            self.pause(process, pause.value)
        return pause is not None

    # -- processes

    @property
    def processes(self) -> Sequence[Process]:
        """The processes that are alive, in the order of their start; the world is not among them."""
        return self._processes[1:]

    def spawn(
        self, name: str, function: Callable[..., Coroutine[Any, Any, object]], *args: object, killable: bool = True
    ) -> Process:
        """Start a process that runs `function(*args)`. A name belongs to one living process at a time."""
        if any(process.name == name for process in self._processes):
            raise ValueError(f"a process named {name!r} is alive")
        process = Process(self, name, killable=killable)
        self._processes.append(process)
        self.note(f"{name} starts")
        process.context.run(self.create_task, self._live(process, function, args), name=f"{name}/main")
        return process

    async def _live(
        self, process: Process, function: Callable[..., Coroutine[Any, Any, object]], args: tuple[object, ...]
    ) -> None:
        try:
            await function(*args)
        except asyncio.CancelledError:
            pass
        except Exception as error:
            process.exception = error
        me = asyncio.current_task()
        others = [task for task in process.tasks if not (task is me or task.done())]
        for task in others:
            task.cancel()
        if others:
            await asyncio.gather(*others, return_exceptions=True)
        self._bury(process, ProcessState.EXITED)

    def kill(self, process: Process) -> None:
        """SIGKILL: nothing of the process runs ever again. No effect on one that has ended."""
        if process is self._world:
            raise ValueError("the world cannot be killed")
        self._bury(process, ProcessState.KILLED)

    def pause(self, process: Process, seconds: float) -> None:
        """SIGSTOP for `seconds` of virtual time; a second pause replaces the first."""
        if process is self._world:
            raise ValueError("the world cannot be paused")
        if process.alive:
            self.note(f"{process.name} pauses for {seconds} s")
            process.paused_until = self._now + seconds

    def deliver(self, process: Process, callback: Callable[[*Ts], object], *args: *Ts, delay: float = 0.0) -> None:
        """Send a message: `callback` runs inside `process` after `delay` seconds, unless it has ended by
        then.
        """
        context = process.context.copy()
        if delay > 0:
            self.call_later(delay, callback, *args, context=context)
        else:
            self.call_soon(callback, *args, context=context)

    def _bury(self, process: Process, state: ProcessState) -> None:
        if not process.alive:
            return
        process.state = state
        process.paused_until = None
        self._processes.remove(process)
        # Kept with what it had to do: garbage collection must not run its `finally` blocks.
        self._graves.append(process)
        self.note(f"{process.name} {state.value}" + (f": {process.exception!r}" if process.exception else ""))
        process.release_waiters()
        for callback in self.on_end:
            self._world.context.copy().run(callback, process)

    def point(self, label: str) -> None:
        """A place, named by `label`, where the current process may die in the midst of synchronous code.

        Raises ProcessKilled if it does, or if it is dead already and the first one was caught.
        """
        process = current_process()
        self.points[label] += 1
        if process is self._world:
            return
        if process.alive and process.killable and self.faults.strikes(f"crash/{label}"):
            self.kill(process)
        if not process.alive:
            raise ProcessKilled(label)

    # -- what the rest of asyncio asks of a loop

    def time(self) -> float:
        """Virtual seconds since the start of the run."""
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run the callback in its context's process, after what is ready there."""
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        process = context.get(PROCESS, self._world)
        if process.alive and not self._closed:
            process.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run the callback `delay` virtual seconds from now."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run the callback at the virtual moment `when`; equal moments keep the order of the calls."""
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        process = context.get(PROCESS, self._world)
        if process.alive and not self._closed:
            heapq.heappush(self._timers, (when, self._next_serial(), process, handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return SimulatedFuture(self._next_serial(), self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **_newer: object,  # options of newer Pythons, which may be left out
    ) -> asyncio.Task[T]:
        """A task in its context's process, which starts in its turn (an eager start is not simulated)."""
        context = contextvars.copy_context() if context is None else context
        process = context.get(PROCESS, self._world)
        serial = self._next_serial()
        task = SimulatedTask(
            serial, coro, loop=self, name=str(name or f"{process.name}/{serial}"), context=context, process=process
        )
        process.tasks.append(task)
        if len(process.tasks) % PRUNE_EVERY == 0:
            process.tasks[:] = [task for task in process.tasks if not task.done()]
        return task

    def run_in_executor(self, *_: object) -> Any:
        """Refused: threads are not deterministic."""
        raise NotImplementedError("no threads in a simulation: run the function inline, as a executor does here")

    def is_running(self) -> bool:
        """Is the scenario under way?"""
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        """Has the run been cleared away?"""
        return self._closed

    def get_debug(self) -> bool:
        """Never: asyncio's debug mode looks at the real clock."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio reports in `errors`, except that a killed process says nothing."""
        process = PROCESS.get(self._world)
        if self._closed or isinstance(context.get("exception"), ProcessKilled) or not process.alive:
            return
        self.note(f"error: {context.get('message')} {context.get('exception')!r}")
        self.errors.append(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by asyncio.TimerHandle.cancel; a cancelled timer is skipped when its moment comes."""

    def close(self) -> None:
        """Clear away what is left, in the order of its making. The `finally` blocks of the dead run now."""
        if self._closed:
            return
        self._closed = True
        processes = [*self._graves, *self._processes]
        for task in sorted((task for process in processes for task in process.tasks), key=lambda task: task.serial):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if task.done():
                task._log_traceback = False
                continue
            coroutine: Any = task.get_coro()
            try:
                coroutine.close()
            except BaseException:
                pass  # the run is over and judged; what its remains say no longer counts
        for process in processes:
            process.tasks.clear()
        self._timers.clear()
        if self._collects:
            gc.enable()

    # -- what a report needs

    def note(self, text: str) -> None:
        """Write a line into the timeline, under the current process."""
        self._record(PROCESS.get(self._world), text)

    def timeline(self, last: int = TIMELINE_LENGTH) -> str:
        """The last steps and notes, one a line: step, virtual second, process, what."""
        entries = list(self._timeline)[-last:]
        return "\n".join(f"{step:7d} {now:12.6f}  {name:16s} {describe(what)}" for step, now, name, what in entries)

    def digest(self) -> str:
        """A hash over every step and note of the run, equal for equal runs. Needs `trace=True`."""
        if self._hash is None:
            raise ValueError("a digest needs SimulationLoop(..., trace=True)")
        return self._hash.hexdigest()

    def _record(self, process: Process, what: object) -> None:
        self._timeline.append((self.steps, self._now, process.name, what))
        if self._hash is not None:
            self._hash.update(f"{self.steps} {self._now:.6f} {process.name} {describe(what)}\n".encode())

    def _whereabouts(self) -> str:
        """Where every task of the living waits."""
        lines = []
        for process in self._processes:
            for task in process.tasks:
                if not task.done():
                    lines.append(f"  {task.get_name()} waits in {waiting_place(task.get_coro())}")
        return "\n".join(lines)

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial


class SimulatedClock:
    """The wall clock of a process: virtual time since `start`, wrong by `skew_ms`, which may be changed."""

    def __init__(self, loop: SimulationLoop, start: Instant, *, skew_ms: int = 0) -> None:
        self.skew_ms = skew_ms
        self._loop = loop
        self._start = start

    def now(self) -> Instant:
        """The present as this process sees it."""
        return Instant(self._start + int(self._loop.time() * 1000) + self.skew_ms)


def describe(what: object) -> str:
    """What a step did, without anything that differs from run to run (no addresses)."""
    if not isinstance(what, asyncio.Handle):
        return str(what)
    callback: Any = what._callback  # type: ignore[attr-defined]
    if callback is None:
        return "timer"  # cancelled since, as a sleep cancels its timer when it wakes
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    return str(getattr(callback, "__qualname__", type(callback).__name__))


def waiting_place(coroutine: Any) -> str:
    """The innermost line of ours at which a coroutine waits."""
    place = "its start"
    while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
        frame = coroutine.cr_frame
        place = f"{coroutine.__qualname__} ({frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno})"
        coroutine = coroutine.cr_await
    return place
