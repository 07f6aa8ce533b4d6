"""Forks: a child process that a function has made with `os.fork` ends where the function ends.

The child has a copy of the thread that forked and of nothing else. The other threads of the engine and the connections
to the database belong to the parent: the child would wait for ever, or write on the parent's connection.
"""

import os
import sys
import traceback


def end_if_forked(process: int, error: BaseException | None) -> None:
    """End this process, unless it is `process`, in which the function began that has just returned or raised `error`.

    The exit code is the one that a program has which ends like this: 0, that of SystemExit, or 1.
    """
    if os.getpid() == process:
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
