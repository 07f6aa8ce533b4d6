"""Forks: a child process that a function has made with `os.fork` ends where the function ends.

The child has a copy of the thread that forked and of nothing else. The other threads of the engine and the connections
to the database belong to the parent: the child would wait for ever, or write on the parent's connection.
"""

import os
import sys
import traceback

_generation = 0


def generation() -> int:
    """How many forks lie between this process and the one that loaded this module."""
    return _generation


def _count_fork() -> None:
    global _generation  # noqa: PLW0603
    _generation += 1


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_count_fork)


def end_if_forked(before: int, error: BaseException | None) -> None:
    """End this process if the function forked it that has just returned or raised `error`: its `generation` is not the
    one `before`.

    The exit code is the one that a program has which ends like this: 0, that of SystemExit, or 1.
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
    finally:  # whatever has become of the two outputs: closed, or None
        os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))
