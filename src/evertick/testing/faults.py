"""Faults: single failures that a test injects at given places.

The faults of a function wrap its handler while a world is open, so that they apply wherever it is called: as a job,
from outside, or from another function.
"""

import functools
from collections import deque
from collections.abc import Callable
from typing import Any

from evertick.app.functions.function import Function
from evertick.base.errors import DatabaseUnavailable, WriteConflict
from evertick.testing.loop import Process, ProcessKilled, current_process


class Faults:
    """The faults of one world."""

    def __init__(self, kill: Callable[[Process], None]) -> None:
        self._kill = kill
        self._handlers: dict[Function[..., Any], Callable[..., Any]] = {}
        self._errors: dict[Function[..., Any], deque[BaseException]] = {}
        self._crashes: dict[Function[..., Any], int] = {}
        self._conflicts: dict[Function[..., Any], int] = {}
        self._to_kill: Process | None = None
        self._conflicting: str | None = None
        self.database_is_down = False

    def fail(self, function: Function[..., Any], error: BaseException) -> None:
        """Make the next run of the function raise `error` instead of running."""
        self._watch(function)
        self._errors.setdefault(function, deque()).append(error)

    def crash(self, function: Function[..., Any], times: int) -> None:
        """Kill the worker after the function has run as a job, before its commit."""
        self._watch(function)
        self._crashes[function] = self._crashes.get(function, 0) + times

    def conflict(self, function: Function[..., Any], times: int) -> None:
        """Make the next `times` commits of transactions with the function raise WriteConflict."""
        self._watch(function)
        self._conflicts[function] = self._conflicts.get(function, 0) + times

    def before_work(self) -> None:
        """Called at the beginning of a transaction. Raises an injected fault."""
        process = current_process()
        if process is not None and not process.alive:
            raise ProcessKilled
        if self.database_is_down:
            raise DatabaseUnavailable("the database does not respond: the test has made it unavailable")
        self._conflicting = None

    def before_commit(self) -> None:
        """Called before a commit. Raises an injected fault."""
        if self._to_kill is not None and current_process() is self._to_kill:
            process, self._to_kill = self._to_kill, None
            self._kill(process)
            raise ProcessKilled
        if self._conflicting is not None:
            name, self._conflicting = self._conflicting, None
            raise WriteConflict(f"{name} raised a write conflict injected by the test")

    def close(self) -> None:
        """Restore the handlers of all functions."""
        for function, handler in self._handlers.items():
            function.handler = handler
        self._handlers.clear()

    def _watch(self, function: Function[..., Any]) -> None:
        if function in self._handlers:
            return
        handler = self._handlers[function] = function.handler

        if function.is_async:

            @functools.wraps(handler)
            async def watched(*args: Any, **kwargs: Any) -> Any:
                self._before(function)
                result = await handler(*args, **kwargs)
                self._after(function)
                return result
        else:

            @functools.wraps(handler)
            def watched(*args: Any, **kwargs: Any) -> Any:
                self._before(function)
                result = handler(*args, **kwargs)
                self._after(function)
                return result

        function.handler = watched

    def _before(self, function: Function[..., Any]) -> None:
        errors = self._errors.get(function)
        if errors:
            raise errors.popleft()

    def _after(self, function: Function[..., Any]) -> None:
        if self._crashes.get(function) and current_process() is not None:
            self._crashes[function] -= 1
            self._to_kill = current_process()
        if self._conflicts.get(function):
            self._conflicts[function] -= 1
            self._conflicting = function.name
