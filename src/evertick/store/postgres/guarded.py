"""Connections of our own: no time limit cuts off their protocol, and they know what they wait for, and where."""

import contextlib
import time
from functools import partial
from typing import Any, Final

import psycopg

from evertick.base.errors import Misuse
from evertick.base.time_limit import current_guard
from evertick.store.postgres.primary import Timeline

CANCEL_TIMEOUT_S: Final = 5.0
_CANCELED_WAIT: Final = "SyncRepWaitForLSN"
"""Where PostgreSQL warns that a commit does not wait for its standby any more. Its text may be a translation."""


class GuardedConnection(psycopg.Connection[Any]):
    """A connection whose protocol no time limit cuts off: everything that goes to the server passes through `wait`."""

    waiting_since: float | None = None
    """When a wait for the server began that has not ended, by `time.monotonic`."""
    timeline: Timeline | None = None
    """The timeline of its server, if that is known."""
    committed_alone = False
    """Whether a commit did not wait for the standby to the end: the wait was canceled."""

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for the server, inside. A statement of the user's own is canceled when its function's time is over."""
        guard = current_guard()
        self.waiting_since = time.monotonic()
        try:
            if guard.inside:
                return super().wait(*args, **kwargs)
            return guard.run_interruptible(self._cancel_quietly, partial(super().wait, *args, **kwargs))
        finally:
            self.waiting_since = None

    def commit(self) -> None:
        _refuse_to_functions("commit")
        super().commit()

    def rollback(self) -> None:
        _refuse_to_functions("rollback")
        super().rollback()

    def close(self) -> None:
        _refuse_to_functions("close")
        super().close()

    def notifies(self, *args: Any, **kwargs: Any) -> Any:
        _refuse_to_functions("notifies")
        return super().notifies(*args, **kwargs)

    def pipeline(self) -> Any:
        _refuse_to_functions("pipeline")
        return super().pipeline()

    def note(self, notice: psycopg.errors.Diagnostic) -> None:
        """Hear a notice of the server. That a wait for the standby was canceled is one: the commit is a success."""
        self.committed_alone = self.committed_alone or notice.source_function == _CANCELED_WAIT

    def _cancel_quietly(self) -> None:
        with contextlib.suppress(psycopg.Error):  # the statement ends by itself, or with its connection
            self.cancel_safe(timeout=CANCEL_TIMEOUT_S)


def _refuse_to_functions(name: str) -> None:
    """Raise Misuse if a function calls it: the connection is its batch's, however the function has come by it.

    A step of a coroutine has no batch: what it asks of the app takes a connection of its own.
    """
    guard = current_guard()
    if guard.is_limiting and not guard.inside and guard.step is None:
        raise Misuse(f"connection.{name}: the connection is shared with other functions; return, or raise to undo")
