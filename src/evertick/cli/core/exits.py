"""Exit codes: what a script can tell from how a command ended. They never change.

0 ok · 1 failed · 2 usage · 3 not found · 4 not allowed · 5 conflict (exists, changed, finished) · 6 partly done
7 the database is unavailable: it does not respond, another engine holds it, or its schema is of another version
8 checked and not fulfilled · 130 interrupted

A process ends by `end`: Python waits at its end for every thread, and a worker that has a deadline must not wait for a
function of the user's that runs in one.
"""

import signal
import threading
import time
from enum import IntEnum
from typing import Final

from evertick.base.errors import AccessDenied, Conflict, EvertickError, Misuse, NotFound, Unavailable


class Exit(IntEnum):
    """The exit codes by name."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    PARTLY = 6
    UNAVAILABLE = 7
    NOT_FULFILLED = 8
    INTERRUPTED = 130


class AppImportFailed(EvertickError):
    """The user's own code could not be imported; the message begins with the place, `app.py:31:`."""

    code = "app_import_failed"


class FunctionRaised(EvertickError):
    """A function that was called from the command line has raised an error."""

    code = "function_raised"


def exit_code_of(error: EvertickError) -> Exit:
    """The exit code for an error, by its branch of the error tree."""
    for branch, code in (
        (Misuse, Exit.USAGE),
        (NotFound, Exit.NOT_FOUND),
        (AccessDenied, Exit.NOT_ALLOWED),
        (Conflict, Exit.CONFLICT),
        (Unavailable, Exit.UNAVAILABLE),
    ):
        if isinstance(error, branch):
            return code
    return Exit.FAILED


LAST_THREADS_S: Final = 0.2


def end(code: int) -> int:
    """Return `code`, or end the process with it if other threads still run."""
    deadline = time.monotonic() + LAST_THREADS_S
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                from evertick.engine.runtime.stop_requests import leave

                leave(code)
    return code


def ending(code: int) -> str:
    """A phrase for how a process ended."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
