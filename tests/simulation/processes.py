"""Simulated processes, and the tasks and futures that run in them.

A process is what the context variable PROCESS says: tasks and callbacks inherit it. Tasks and futures hash by
a serial number, because asyncio keeps some of them in sets, and a hash by address would order them
differently in every run. What makes processes run, stop and die is the loop (`tests.simulation.loop`).
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Coroutine, Generator
from enum import Enum
from typing import Any


class ProcessKilled(BaseException):
    """Raised out of the point at which a process died, to leave its synchronous code. Nothing may catch it."""


class ProcessState(Enum):
    """Where a process is in its life."""

    RUNNING = "running"
    EXITED = "exited"
    KILLED = "killed"


class Process:
    """A simulated process. Made by `SimulationLoop.spawn`; its fields are for reading."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, *, killable: bool) -> None:
        self.name = name
        self.killable = killable
        self.state = ProcessState.RUNNING
        self.exception: Exception | None = None
        self.paused_until: float | None = None
        self.context = contextvars.Context()
        self.ready: deque[asyncio.Handle] = deque()
        self.tasks: list[SimulatedTask] = []
        self._loop = loop
        self._waiters: list[asyncio.Future[None]] = []
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<Process {self.name} {self.state.value}>"

    @property
    def alive(self) -> bool:
        """Has it neither ended nor been killed? A paused process is alive."""
        return self.state is ProcessState.RUNNING

    def ended(self) -> asyncio.Future[None]:
        """A future that is done when the process has ended, in whatever way."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        if self.alive:
            self._waiters.append(waiter)
        else:
            waiter.set_result(None)
        return waiter

    def has_work(self) -> bool:
        """Is anything ready to run here? Forgets what was cancelled."""
        while self.ready and self.ready[0].cancelled():
            self.ready.popleft()
        return bool(self.ready)

    def release_waiters(self) -> None:
        """Wake whoever waits for the end; the loop calls this."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()


PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("simulated process")


class SimulatedFuture(asyncio.Future[Any]):
    """A future whose hash, and so its place in a set, is the same in every run."""

    def __init__(self, serial: int, loop: asyncio.AbstractEventLoop) -> None:
        self.serial = serial
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.serial


class SimulatedTask(asyncio.Task[Any]):
    """A task with a hash that is the same in every run, and its process."""

    def __init__(
        self,
        serial: int,
        coroutine: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        loop: asyncio.AbstractEventLoop,
        name: str,
        context: contextvars.Context,
        process: Process,
    ) -> None:
        self.serial = serial  # before the rest: registering the task hashes it
        self.process = process
        super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.serial


def current_process() -> Process:
    """The simulated process whose code is running.

    Raises LookupError outside a simulation.
    """
    return PROCESS.get()
