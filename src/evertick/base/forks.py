"""Forks: a child process that a function creates with `os.fork` ends when the function ends in it.

The child has a copy of the thread that forked and of no other thread. The other threads of the engine and the
connections to the database belong to the parent: the child would wait for ever, or write on the parent's connection.
"""

import os
import sys
import traceback

_generation = 0


def generation() -> int:
    """The number of forks between this process and the one that loaded this module."""
    return _generation


def _count_fork() -> None:
    global _generation  # noqa: PLW0603
    _generation += 1


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_count_fork)


def end_if_forked(before: int, error: BaseException | None) -> None:
    """End this process if it is a fork that the user's function made: its `generation` is not `before`.

    `error` is what the function raised, or None. The exit code is that of a program: 0, that of SystemExit, or 1.
    """
    if _generation == before:
        return
    failed = error is not None and not isinstance(error, SystemExit)
    code = error.code if isinstance(error, SystemExit) else int(failed)
    try:
        if failed:
            traceback.print_exception(error)
        elif not isinstance(code, int | None):
            print(code, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # also if the two outputs are closed or None
        os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))
